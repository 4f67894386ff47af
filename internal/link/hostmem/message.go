package hostmem

const (
	// MaxHeader is the largest number of bytes of transport headers in a message.
	MaxHeader = 64

	// InlineMax is the longest payload in bytes of a message of Copy.
	InlineMax = 64 << 10

	// ReferMax is the longest payload in bytes of a message of Refer.
	ReferMax = 1 << 30
)

// A Kind says what a message contains.
type Kind uint8

// The kinds.
const (
	Message Kind = iota // headers and payload without padding and ICRC
	Packet              // a whole packet, from its BTH to its ICRC
)

// A Head holds the fields of a message besides its headers and payload.
type Head struct {
	Kind         Kind
	TrafficClass uint8
	HopLimit     uint8
	Port         uint16 // source port of the sender's flow
	Train        uint16 // number of packets in the message; 0 means one
}

// A Ref references payload by its offset in a segment that the sender has offered.
type Ref struct {
	Segment uint32
	Offset  uint64
}

// A Received is a message that a Receiver has read.
type Received struct {
	Head
	Header  []byte // a private copy, valid until Release
	Payload []byte // in shared memory, which the peer may change at any time; nil if Refers
	Ref     Ref
	Refers  bool // Ref references the payload
	Len     int  // length of the payload

	// Lent is not nil if Payload is the peer's memory that Ref references. The payload is then
	// valid only while Lent.Intact is true, and until Release.
	Lent *Receiver
}

// A form is a message's kind in its lowest bit and the place of its payload in the other bits.
type form uint8

const (
	inSlot form = iota << 1
	inArena
	byRef
	forms
)

// first returns the first word of a slot without the stamp.
func (h *Head) first(f form, header int) uint64 {
	return uint64(header)<<32 | uint64(f|form(h.Kind))<<40 | uint64(h.TrafficClass)<<48 | uint64(h.HopLimit)<<56
}

// second returns the second word of a slot.
func (h *Head) second(n int) uint64 {
	return uint64(uint32(n)) | uint64(h.Port)<<32 | uint64(h.Train)<<48
}

// set sets the head from the words of a slot and returns the other fields.
func (h *Head) set(first, second uint64) (f form, header int, n uint32) {
	f = form(first >> 40)
	*h = Head{
		Kind: Kind(f & 1), TrafficClass: uint8(first >> 48), HopLimit: uint8(first >> 56),
		Port: uint16(second >> 32), Train: uint16(second >> 48),
	}
	return f &^ 1, int(uint8(first >> 32)), uint32(second)
}

// stampOf returns the stamp of message number n.
func stampOf(n uint64) uint32 { return uint32(n>>slotBits) + 1 }
