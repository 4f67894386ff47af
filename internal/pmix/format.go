package pmix

import (
	"encoding/binary"
	"fmt"
	"math"
)

// A format is the encoding of integers in the messages of a PMIx version: either with a
// variable number of bytes, or with the size of their type. OpenPMIx names a format by the
// module that packs it.
type format struct {
	variable string // environment variable that is set if the server reads the format
	module   string
	version  string // of PMIx, as a client with this format reports it
	flexible bool
}

// formats are the supported formats, the preferred one first. Servers read several.
var formats = []format{
	{"PMIX_SERVER_URI41", "v41", "4.1.0", true},
	{"PMIX_SERVER_URI3", "v3", "3.2.0", false},
}

// The types of values that this package reads, as OpenPMIx numbers them.
const (
	typeBool       = 1
	typeByte       = 2
	typeString     = 3
	typeSize       = 4
	typePID        = 5
	typeInt        = 6
	typeInt8       = 7
	typeInt16      = 8
	typeInt32      = 9
	typeInt64      = 10
	typeUint       = 11
	typeUint8      = 12
	typeUint16     = 13
	typeUint32     = 14
	typeUint64     = 15
	typeStatus     = 20
	typeByteObject = 27
	typeProcRank   = 40
)

// A packer appends to a message.
type packer struct {
	format
	b []byte
}

func (p *packer) uint8(v uint8) { p.b = append(p.b, v) }

func (p *packer) uint16(v uint16) {
	if p.flexible {
		p.flex(uint64(v))
	} else {
		p.b = binary.BigEndian.AppendUint16(p.b, v)
	}
}

func (p *packer) uint32(v uint32) {
	if p.flexible {
		p.flex(uint64(v))
	} else {
		p.b = binary.BigEndian.AppendUint32(p.b, v)
	}
}

// int32 appends a signed number. The flexible format keeps the sign in the lowest bit.
func (p *packer) int32(v int32) {
	if p.flexible {
		p.flex(uint64(int64(v)<<1 ^ int64(v)>>63))
	} else {
		p.b = binary.BigEndian.AppendUint32(p.b, uint32(v))
	}
}

// size appends a number of C type size_t. The fixed format puts its type first.
func (p *packer) size(n int) {
	if p.flexible {
		p.flex(uint64(n))
	} else {
		p.uint16(typeUint64)
		p.b = binary.BigEndian.AppendUint64(p.b, uint64(n))
	}
}

// flex appends a number in groups of seven bits, lowest first. The eighth bit of a byte says
// that another byte follows. A ninth byte holds eight bits.
func (p *packer) flex(v uint64) {
	for range 8 {
		if v < 0x80 {
			p.b = append(p.b, byte(v))
			return
		}
		p.b = append(p.b, byte(v)|0x80)
		v >>= 7
	}
	p.b = append(p.b, byte(v))
}

// one begins an item of a message, which starts with the number of its values: 1.
func (p *packer) one() { p.int32(1) }

func (p *packer) string(s string) {
	p.int32(int32(len(s) + 1))
	p.b = append(append(p.b, s...), 0)
}

func (p *packer) bytes(b []byte) {
	p.size(len(b))
	p.b = append(p.b, b...)
}

// An unpacker reads a message. After an error, which it keeps, it returns zeros.
type unpacker struct {
	format
	b   []byte
	err error
}

func (u *unpacker) fail(text string, args ...any) {
	if u.err == nil {
		u.err = fmt.Errorf("%w: %s", ErrMessage, fmt.Sprintf(text, args...))
	}
	u.b = nil
}

// more reports whether another item follows.
func (u *unpacker) more() bool { return u.err == nil && len(u.b) > 0 }

// take returns the next n bytes, or nil.
func (u *unpacker) take(n uint64) []byte {
	if n > uint64(len(u.b)) {
		u.fail("expected %d more bytes, found %d", n, len(u.b))
		return nil
	}
	b := u.b[:n:n]
	u.b = u.b[n:]
	return b
}

func (u *unpacker) uint8() uint8 {
	if b := u.take(1); b != nil {
		return b[0]
	}
	return 0
}

// uint reads an unsigned number of width bytes.
func (u *unpacker) uint(width int) (v uint64) {
	if u.flexible {
		v = u.flex()
		if width < 8 && v>>(8*width) != 0 {
			u.fail("expected a number of %d bytes, found %d", width, v)
			return 0
		}
		return v
	}
	for _, b := range u.take(uint64(width)) {
		v = v<<8 | uint64(b)
	}
	return v
}

// int32 reads a signed number.
func (u *unpacker) int32() int32 {
	if !u.flexible {
		return int32(u.uint(4))
	}
	x := u.flex()
	v := int64(x>>1) ^ -int64(x&1)
	if v < math.MinInt32 || v > math.MaxInt32 {
		u.fail("expected a number of 4 bytes, found %d", v)
		return 0
	}
	return int32(v)
}

// size reads a number of C type size_t.
func (u *unpacker) size() uint64 {
	if u.flexible {
		return u.flex()
	}
	switch t := u.uint(2); t {
	case typeUint64:
		return u.uint(8)
	case typeUint32:
		return u.uint(4)
	default:
		u.fail("expected a size of type %d or %d, found type %d", typeUint32, typeUint64, t)
		return 0
	}
}

func (u *unpacker) flex() (v uint64) {
	for i := range 8 {
		b := u.uint8()
		v |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			return v
		}
	}
	return v | uint64(u.uint8())<<56
}

func (u *unpacker) one() {
	if n := u.int32(); u.err == nil && n != 1 {
		u.fail("expected 1 value, found %d", n)
	}
}

// string reads a string, which ends with a zero byte. C's NULL has length 0.
func (u *unpacker) string() string {
	n := u.int32()
	if n < 0 {
		u.fail("string of %d bytes", n)
	}
	b := u.take(uint64(max(n, 0)))
	if len(b) == 0 {
		return ""
	}
	if b[len(b)-1] != 0 {
		u.fail("expected a string that ends with 0, found %q", b)
		return ""
	}
	return string(b[:len(b)-1])
}

func (u *unpacker) bytes() []byte { return u.take(u.size()) }

// skip reads and ignores a value.
func (u *unpacker) skip(kind uint64) {
	switch kind {
	case typeBool, typeByte, typeInt8, typeUint8:
		u.uint8()
	case typeInt16, typeUint16:
		u.uint(2)
	case typeString:
		u.string()
	case typeInt32, typeUint32, typeStatus, typeProcRank:
		u.skipNumber(4)
	case typeInt64, typeUint64:
		u.skipNumber(8)
	case typeSize, typeInt, typeUint, typePID:
		if !u.flexible {
			u.skip(u.described())
			return
		}
		u.flex()
	case typeByteObject:
		u.bytes()
	default:
		u.fail("value of type %d, expected one of PMIx's integers, a string or bytes", kind)
	}
}

func (u *unpacker) skipNumber(width int) {
	if u.flexible {
		u.flex() // a signed number may have more bits than its type
		return
	}
	u.uint(width)
}

// described reads the type of a number whose width depends on the host.
func (u *unpacker) described() uint64 {
	switch t := u.uint(2); t {
	case typeInt32, typeUint32, typeInt64, typeUint64:
		return t
	default:
		u.fail("expected a number of 4 or 8 bytes, found type %d", t)
		return typeByteObject // it was empty
	}
}
