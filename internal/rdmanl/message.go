package rdmanl

import (
	"encoding/binary"
	"net/netip"
	"syscall"
)

// The parts of messages (linux/netlink.h).
const (
	headerLen = 16
	attrLen   = 4
	align     = 4

	typeError = 2
	typeDone  = 3

	flagMulti = 0x2
	flagAck   = 0x4
	flagDump  = 0x300

	attrNested    = 1 << 15
	attrByteOrder = 1 << 14
)

// A Header is the header of a message.
//
//	 0      4      6      8      12     16
//	+------+------+------+------+------+
//	| len  | type | flags| seq  | pid  |
//	+------+------+------+------+------+
type Header struct {
	Len         uint32
	Type, Flags uint16
	Seq, PID    uint32
}

// parse returns the header and the attributes of a message. ok is false if the message is shorter
// than it says.
func parse(b []byte) (h Header, attrs []byte, ok bool) {
	if len(b) < headerLen {
		return h, nil, false
	}
	e := binary.NativeEndian
	h = Header{Len: e.Uint32(b), Type: e.Uint16(b[4:]), Flags: e.Uint16(b[6:]), Seq: e.Uint32(b[8:]), PID: e.Uint32(b[12:])}
	if h.Len < headerLen || uint64(h.Len) > uint64(len(b)) {
		return h, nil, false
	}
	return h, b[headerLen:h.Len], true
}

func (h *Header) append(b []byte) []byte {
	e := binary.NativeEndian
	b = e.AppendUint32(b, h.Len)
	b = e.AppendUint16(b, h.Type)
	b = e.AppendUint16(b, h.Flags)
	b = e.AppendUint32(b, h.Seq)
	return e.AppendUint32(b, h.PID)
}

// Attributes are values by type.
type Attributes map[uint16][]byte

// ParseAttributes returns the values of attributes by type. As in the kernel, the last one need not
// be padded, and the last of a type counts.
func ParseAttributes(b []byte) (Attributes, error) {
	values := Attributes{}
	for len(b) >= attrLen {
		n, kind := int(binary.NativeEndian.Uint16(b)), binary.NativeEndian.Uint16(b[2:])
		if n < attrLen || n > len(b) {
			return nil, syscall.EINVAL
		}
		values[kind&^(attrNested|attrByteOrder)] = b[attrLen:n]
		b = b[min((n+align-1)&^(align-1), len(b)):]
	}
	return values, nil
}

// Uint32 returns a number. ok is false if there is none; a value of another size is an error.
func (a Attributes) Uint32(kind uint16) (v uint32, ok bool, err error) {
	b, ok := a[kind]
	switch {
	case !ok:
		return 0, false, nil
	case len(b) < 4:
		return 0, false, syscall.EINVAL
	}
	return binary.NativeEndian.Uint32(b), true, nil
}

// A message is built from front to back.
type message struct{ b []byte }

func newMessage(h *Header, kind, flags uint16) *message {
	r := Header{Type: kind, Flags: flags, Seq: h.Seq, PID: h.PID}
	return &message{r.append(nil)}
}

// bytes completes the message.
func (m *message) bytes() []byte {
	binary.NativeEndian.PutUint32(m.b, uint32(len(m.b)))
	return m.b
}

func (m *message) raw(b []byte) { m.b = append(m.b, b...) }

func (m *message) put(kind uint16, value []byte) {
	m.b = binary.NativeEndian.AppendUint16(m.b, uint16(attrLen+len(value)))
	m.b = binary.NativeEndian.AppendUint16(m.b, kind)
	m.b = append(m.b, value...)
	for len(m.b)%align != 0 {
		m.b = append(m.b, 0)
	}
}

func (m *message) u8(kind uint16, v uint8)    { m.put(kind, []byte{v}) }
func (m *message) text(kind uint16, s string) { m.put(kind, append([]byte(s), 0)) }
func (m *message) u32(kind uint16, v uint32)  { m.put(kind, binary.NativeEndian.AppendUint32(nil, v)) }
func (m *message) u64(kind uint16, v uint64)  { m.put(kind, binary.NativeEndian.AppendUint64(nil, v)) }

// nested puts an attribute that holds those that f puts. As in the kernel before 5.2 and in
// nla_nest_start_noflag, which this client uses, there is no flag.
func (m *message) nested(kind uint16, f func()) {
	at := len(m.b)
	m.put(kind, nil)
	f()
	binary.NativeEndian.PutUint16(m.b[at:], uint16(len(m.b)-at))
}

// sockaddrLen is the size of a struct sockaddr_storage.
const sockaddrLen = 128

// address puts a socket address. The zero value puts none.
func (m *message) address(kind uint16, a netip.AddrPort) {
	if !a.IsValid() {
		return
	}
	var b [sockaddrLen]byte
	binary.BigEndian.PutUint16(b[2:], a.Port())
	if ip := a.Addr().Unmap(); ip.Is4() {
		binary.NativeEndian.PutUint16(b[:], syscall.AF_INET)
		v := ip.As4()
		copy(b[4:], v[:])
	} else {
		binary.NativeEndian.PutUint16(b[:], syscall.AF_INET6)
		v := ip.As16()
		copy(b[8:], v[:])
	}
	m.put(kind, b[:])
}
