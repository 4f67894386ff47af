package session

import (
	"encoding/binary"
	"fmt"
)

// HeaderLen is the length of the header of each frame.
const HeaderLen = 48

// A Kind is the type of a frame.
type Kind uint8

// The kinds. Requests, Done, Cancel and Bye come from clients, Answer, Taken and Leave from
// servers.
const (
	Request Kind = iota + 1 // a call
	Answer                  // its result
	Taken                   // one-way calls were executed: the body is a list of Places
	Done                    // the body of an answer was read
	Cancel                  // the caller no longer waits for the answer
	Credit                  // only Consumed
	Leave                   // use another session; the body is the address of another server, or empty
	Bye                     // the client has closed the session
	kinds
)

var kindNames = [kinds]string{
	Request: "request", Answer: "answer", Taken: "taken", Done: "done", Cancel: "cancel", Credit: "credit", Leave: "leave", Bye: "bye",
}

// String returns the kind's name.
func (k Kind) String() string {
	if k > 0 && k < kinds {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// A Flag says more about a frame.
type Flag uint8

// The flags.
const (
	Far      Flag = 1 << iota // the body is in the sender's memory, at Address
	OneWay                    // a request without an answer, acknowledged by Taken
	Canceled                  // a repeated request whose caller has gone: do not start it
	flags
)

// A Header is the beginning of each frame.
//
//	 0               1               2               3
//	+---------------+---------------+---------------+---------------+
//	|     kind      |     flags     |             slot              |
//	+---------------+---------------+---------------+---------------+
//	|                           sequence                            |
//	|                           consumed                            |
//	|          method of a request, or code of an answer            |
//	|                       length (8 bytes)                        |
//	|                 timeout in nanoseconds (8 bytes)              |
//	|                       address (8 bytes)                       |
//	|                              key                              |
//	|                     length of the headers                     |
//	+---------------------------------------------------------------+
type Header struct {
	Kind     Kind
	Flags    Flag
	Slot     uint16
	Sequence uint32 // of the slot's calls
	Consumed uint32 // frames of the peer that the sender has consumed on this connection
	Number   uint32 // the method of a request, the code of an answer
	Length   uint64 // bytes of the body
	Timeout  uint64 // of a request, in nanoseconds; 0 if there is none
	Address  uint64 // of a far body
	Key      uint32 // of a far body
	Headers  uint32 // bytes of the headers of a request or an answer, which follow the body
}

// Extra returns the headers after the body that Parse has returned.
func (h *Header) Extra(body []byte) []byte { return body[len(body) : len(body)+int(h.Headers)] }

// Put writes the header to b, which has at least HeaderLen bytes.
func (h *Header) Put(b []byte) {
	be := binary.BigEndian
	b[0], b[1] = byte(h.Kind), byte(h.Flags)
	be.PutUint16(b[2:], h.Slot)
	be.PutUint32(b[4:], h.Sequence)
	be.PutUint32(b[8:], h.Consumed)
	be.PutUint32(b[12:], h.Number)
	be.PutUint64(b[16:], h.Length)
	be.PutUint64(b[24:], h.Timeout)
	be.PutUint64(b[32:], h.Address)
	be.PutUint32(b[40:], h.Key)
	be.PutUint32(b[44:], h.Headers)
}

const consumedAt = 8 // where the field Consumed is

// PutFar writes the place of a far body in a header in b.
func PutFar(b []byte, address uint64, key uint32) {
	binary.BigEndian.PutUint64(b[32:], address)
	binary.BigEndian.PutUint32(b[40:], key)
}

// SetFlag sets a flag of a header in b.
func SetFlag(b []byte, f Flag) { b[1] |= byte(f) }

// Parse reads a frame. The body is the part of b between the header and the
// headers of Extra. The error matches ErrProtocol.
func Parse(b []byte) (h Header, body []byte, err error) {
	if len(b) < HeaderLen {
		return h, nil, tooShort(b)
	}
	be := binary.BigEndian
	h = Header{
		Kind: Kind(b[0]), Flags: Flag(b[1]), Slot: be.Uint16(b[2:]), Sequence: be.Uint32(b[4:]), Consumed: be.Uint32(b[8:]),
		Number: be.Uint32(b[12:]), Length: be.Uint64(b[16:]), Timeout: be.Uint64(b[24:]), Address: be.Uint64(b[32:]), Key: be.Uint32(b[40:]),
		Headers: be.Uint32(b[44:]),
	}
	if uint64(h.Headers) > uint64(len(b)-HeaderLen) || h.Headers > 0 && h.Kind != Request && h.Kind != Answer {
		return h, nil, fmt.Errorf("%w: frame %q of %d bytes has headers of %d bytes", ErrProtocol, h.Kind, len(b), h.Headers)
	}
	end := len(b) - int(h.Headers)
	if err := CheckHeaders(b[end:]); err != nil {
		return h, nil, err
	}
	body = b[HeaderLen:end]
	switch {
	case h.Kind == 0 || h.Kind >= kinds || h.Flags >= flags:
		return h, nil, fmt.Errorf("%w: frame %q with flags %#x", ErrProtocol, h.Kind, uint8(h.Flags))
	case h.Flags&Far != 0 && (h.Kind != Request && h.Kind != Answer || len(body) > 0 || h.Length == 0):
		return h, nil, fmt.Errorf("%w: frame %q of %d bytes announces a body of %d bytes", ErrProtocol, h.Kind, len(b), h.Length)
	case h.Flags&Far == 0 && h.Length != uint64(len(body)):
		return h, nil, fmt.Errorf("%w: a body of %d bytes, expected %d", ErrProtocol, len(body), h.Length)
	case h.Kind == Taken && len(body)%PlaceLen != 0:
		return h, nil, fmt.Errorf("%w: a list of %d bytes, expected a multiple of %d", ErrProtocol, len(body), PlaceLen)
	}
	return h, body, nil
}

func tooShort(b []byte) error {
	return fmt.Errorf("%w: a frame of %d bytes, expected at least %d", ErrProtocol, len(b), HeaderLen)
}

// PlaceLen is the length of a Place in a frame.
const PlaceLen = 8

// A Place names a call.
type Place struct {
	Slot     uint16
	Sequence uint32
}

// Append appends the place to the body of a frame.
func (p Place) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(p.Slot))
	return binary.BigEndian.AppendUint32(b, p.Sequence)
}

// ParsePlace reads the place at the beginning of b, which has at least PlaceLen bytes.
func ParsePlace(b []byte) Place {
	return Place{uint16(binary.BigEndian.Uint32(b)), binary.BigEndian.Uint32(b[4:])}
}
