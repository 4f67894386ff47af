package capsule

import (
	"fmt"
)

// An SGLKind is the type and subtype of a descriptor in one byte (base 2.0, figure "SGL Descriptor
// Type"; RDMA transport 1.0, 2.2).
type SGLKind uint8

// The kinds that the RDMA transport has.
const (
	SGLNone             SGLKind = 0x00 // with address 0 and length 0: no data; otherwise not of this transport
	SGLOffset           SGLKind = 0x01 // data in the capsule
	SGLKeyed            SGLKind = 0x40 // memory of the host
	SGLKeyedInvalidate  SGLKind = 0x4f // memory of the host whose key the response invalidates
	maxKeyedLength              = 1<<24 - 1
	sglTypeKeyed                = 4
	sglSubtypeTransport         = 0xf
)

// String names the kind.
func (k SGLKind) String() string {
	switch k {
	case SGLNone:
		return "data block, address"
	case SGLOffset:
		return "data block, offset"
	case SGLKeyed:
		return "keyed data block, address"
	case SGLKeyedInvalidate:
		return "keyed data block, address, invalidate"
	}
	return fmt.Sprintf("SGLKind(%#02x)", uint8(k))
}

// Keyed reports whether the descriptor names memory of the host.
func (k SGLKind) Keyed() bool { return k>>4 == sglTypeKeyed }

// An SGL is the one descriptor of a command.
type SGL struct {
	Kind   SGLKind
	Addr   uint64 // address at the host, or offset from the start of the capsule's data
	Length uint32 // bytes; 24 bits in a keyed descriptor
	Key    uint32 // of a keyed descriptor
}

func parseSGL(b []byte) SGL {
	s := SGL{Kind: SGLKind(b[15]), Addr: le.Uint64(b)}
	if s.Kind.Keyed() {
		s.Length = uint32(b[8]) | uint32(b[9])<<8 | uint32(b[10])<<16
		s.Key = le.Uint32(b[11:])
	} else {
		s.Length = le.Uint32(b[8:])
	}
	return s
}

func (s SGL) put(b []byte) {
	le.PutUint64(b, s.Addr)
	if s.Kind.Keyed() {
		b[8], b[9], b[10] = byte(s.Length), byte(s.Length>>8), byte(s.Length>>16)
		le.PutUint32(b[11:], s.Key)
	} else {
		le.PutUint32(b[8:], s.Length)
	}
	b[15] = byte(s.Kind)
}

// KeyedSGL describes memory of a host, at most 16 MiB less one byte. With invalidate the controller
// invalidates the key with its response.
func KeyedSGL(addr uint64, key, length uint32, invalidate bool) SGL {
	s := SGL{Kind: SGLKeyed, Addr: addr, Length: min(length, maxKeyedLength), Key: key}
	if invalidate {
		s.Kind = SGLKeyedInvalidate
	}
	return s
}

// OffsetSGL describes data in the capsule.
func OffsetSGL(offset uint64, length uint32) SGL {
	return SGL{Kind: SGLOffset, Addr: offset, Length: length}
}
