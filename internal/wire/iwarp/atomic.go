package iwarp

import "encoding/binary"

// Lengths of the messages of RFC 7306 after their Segment.
const (
	AtomicLen      = 52
	AtomicValueLen = 12
	ImmediateLen   = 8
)

// An AtomicOp is an atomic request's operation (RFC 7306 5.2.1).
type AtomicOp uint8

// The operations that the verbs have.
const (
	FetchAdd    AtomicOp = 0
	CompareSwap AtomicOp = 2
)

// An Atomic is the Atomic Request after its Segment (RFC 7306 5.2.1):
//
//	+-------------------------------------------------------+-------+
//	|                       Reserved                        |AOpCode|
//	+-------------------------------------------------------+-------+
//	|                      Request Identifier                       |
//	+---------------------------------------------------------------+
//	|                          Remote STag                          |
//	+---------------------------------------------------------------+
//	|                     Remote Tagged Offset (64)                 |
//	|                     Add or Swap Data (64)                     |
//	|                     Add or Swap Mask (64)                     |
//	|                     Compare Data (64)                         |
//	|                     Compare Mask (64)                         |
//	+---------------------------------------------------------------+
//
// A bit of the add mask stops the carry of that bit, so that mask 0 adds 64 bits. The
// other masks select the bits to swap and compare.
type Atomic struct {
	Op          AtomicOp
	ID          uint32
	STag        uint32
	TO          uint64
	AddSwap     uint64
	AddSwapMask uint64
	Compare     uint64
	CompareMask uint64
}

// Parse reads the request. It reports whether b has AtomicLen bytes.
func (a *Atomic) Parse(b []byte) bool {
	if len(b) < AtomicLen {
		return false
	}
	a.Op, a.ID, a.STag = AtomicOp(b[3]&0xf), binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:])
	for i, p := range [...]*uint64{&a.TO, &a.AddSwap, &a.AddSwapMask, &a.Compare, &a.CompareMask} {
		*p = binary.BigEndian.Uint64(b[12+8*i:])
	}
	return true
}

// Put writes the request to b, which has room for it.
func (a *Atomic) Put(b []byte) {
	binary.BigEndian.PutUint32(b, uint32(a.Op&0xf))
	binary.BigEndian.PutUint32(b[4:], a.ID)
	binary.BigEndian.PutUint32(b[8:], a.STag)
	for i, v := range [...]uint64{a.TO, a.AddSwap, a.AddSwapMask, a.Compare, a.CompareMask} {
		binary.BigEndian.PutUint64(b[12+8*i:], v)
	}
}

// Apply returns the word that the request makes of another. It reports whether the word changes.
func (a *Atomic) Apply(old uint64) (value uint64, changes bool) {
	if a.Op == CompareSwap {
		if (old^a.Compare)&a.CompareMask != 0 {
			return old, false
		}
		return old&^a.AddSwapMask | a.AddSwap&a.AddSwapMask, true
	}
	if a.AddSwapMask == 0 {
		return old + a.AddSwap, true
	}
	var carry uint64
	for i := range 64 {
		sum := old>>i&1 + a.AddSwap>>i&1 + carry
		value |= sum & 1 << i
		if carry = sum >> 1; a.AddSwapMask>>i&1 != 0 {
			carry = 0
		}
	}
	return value, true
}

// An AtomicValue is the Atomic Response after its Segment (RFC 7306 5.2.2):
//
//	+---------------------------------------------------------------+
//	|                  Original Request Identifier                  |
//	+---------------------------------------------------------------+
//	|                   Original Remote Data Value                  |
//	|                                                               |
//	+---------------------------------------------------------------+
type AtomicValue struct {
	ID    uint32
	Value uint64
}

// Parse reads the response. It reports whether b has AtomicValueLen bytes.
func (a *AtomicValue) Parse(b []byte) bool {
	if len(b) < AtomicValueLen {
		return false
	}
	a.ID, a.Value = binary.BigEndian.Uint32(b), binary.BigEndian.Uint64(b[4:])
	return true
}

// Put writes the response to b, which has room for it.
func (a *AtomicValue) Put(b []byte) {
	binary.BigEndian.PutUint32(b, a.ID)
	binary.BigEndian.PutUint64(b[4:], a.Value)
}

// PutImmediate writes the eight bytes of an Immediate Data message (RFC 7306 6.2):
// the verbs' 32 bits stand first, as Linux's drivers put them.
func PutImmediate(b []byte, v uint32) { binary.BigEndian.PutUint64(b, uint64(v)<<32) }

// ImmediateValue reads those 32 bits.
func ImmediateValue(b []byte) uint32 { return binary.BigEndian.Uint32(b) }
