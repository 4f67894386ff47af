package samehost

import (
	"encoding/binary"
	"net/netip"

	"softrdma/internal/reason"
)

// The handshake, over a connection that keeps the boundaries of messages. Descriptors are
// the sender's area, then a bell for each of its lanes.
//
//	dialer                                acceptor
//	                                      welcome: its lanes
//	hello: itself, lanes, descriptors
//	                                      answer: the nonce that it saw, descriptors
//	confirm: the same, without descriptors
//	                                      ready
//
// Either end may send refused instead, and then closes the connection. After ready each may
// offer segments and ask where an address lies in one, and answers the other's offers and
// questions. The connection ends with the channel.
type kind uint8

const (
	welcome kind = iota + 1
	hello
	answer
	confirm
	ready
	refused
	offer      // carries a segment's descriptor
	mapped     // the segment is mapped
	unmappable // the segment cannot be mapped
	withdraw   // asks to unmap the segment
	locate     // asks which segment contains an address of a region
	located    // answers locate, after offering the segment
	kinds
)

const (
	protocolMagic   = 0x68726473 // "sdrh"
	protocolVersion = 4

	maxOf      = 1 << 16 // lanes of an address
	headLen    = 8
	maxMessage = 512
	maxText    = 160 // bytes of a text in a message
	maxKind    = 16
	maxName    = 107 // bytes of a socket's path: sun_path ends with a zero byte

	// maxRights is how many descriptors a message may bring: an area and the bells.
	maxRights = 1 + MaxLanes
)

// A nonce is a random number in shared memory that each end must see.
type nonce [16]byte

// A message is any message of the protocol. Its kind decides which fields it has, see fields.
type message struct {
	kind             kind
	stack            uint64 // of the sender
	mode             Mode   // of the sender
	lanes            int    // of the sender
	first, of        uint32 // the lanes of its address; 0 for all
	device           string // kind of frames
	from, to         netip.AddrPort
	name             string // of the sender's socket in the directory
	seen             nonce  // in the receiver's area
	reason           string
	expected, found  uint64
	id, generation   uint32 // of a segment; id is 0 in the answer to locate if there is none
	size             uint64 // of a segment
	key              uint32 // R_Key of a region
	at               uint64 // address in a region; in the answer the offset in the segment
	descriptorsAsked int    // number of descriptors that must come with it
}

// fields passes each field of the message's kind to c, which reads or writes it.
func (m *message) fields(c *coder) {
	switch m.kind {
	case welcome:
		c.number(&m.stack)
		c.mode(&m.mode)
		c.share(m)
	case hello:
		c.number(&m.stack)
		c.mode(&m.mode)
		c.share(m)
		c.text(&m.device, maxKind)
		c.endpoint(&m.from)
		c.endpoint(&m.to)
		c.text(&m.name, maxName)
		m.descriptorsAsked = 1 + m.lanes
	case answer:
		c.small(&m.lanes, 1, MaxLanes)
		c.nonce(&m.seen)
		m.descriptorsAsked = 1 + m.lanes
	case confirm:
		c.nonce(&m.seen)
	case refused:
		c.text(&m.reason, maxText)
		c.number(&m.expected)
		c.number(&m.found)
	case offer:
		c.id(&m.id)
		c.id(&m.generation)
		c.number(&m.size)
		m.descriptorsAsked = 1
	case mapped, unmappable:
		c.id(&m.id)
		c.id(&m.generation)
	case withdraw:
		c.id(&m.id)
	case locate:
		c.id(&m.key)
		c.number(&m.at)
	case located:
		c.id(&m.key)
		c.id(&m.id)
		c.number(&m.at)
	}
}

// append appends the message's bytes to b.
func (m *message) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, protocolMagic)
	b = binary.LittleEndian.AppendUint16(b, protocolVersion)
	b = append(b, byte(m.kind), 0)
	c := coder{out: b, writing: true}
	m.fields(&c)
	return c.out
}

// parse parses a message. It refuses trailing bytes.
func (m *message) parse(b []byte) error {
	*m = message{}
	if len(b) < headLen || binary.LittleEndian.Uint32(b) != protocolMagic {
		return malformed(headLen, uint64(len(b)))
	}
	if v := binary.LittleEndian.Uint16(b[4:]); v != protocolVersion {
		return reason.Detail{Reason: reason.HostVersion, Expected: protocolVersion, Found: uint64(v)}.Err()
	}
	m.kind = kind(b[6])
	if m.kind == 0 || m.kind >= kinds || b[7] != 0 {
		return malformed(uint64(kinds)-1, uint64(m.kind))
	}
	c := coder{in: b[headLen:]}
	m.fields(&c)
	if c.bad || len(c.in) > 0 {
		return malformed(uint64(m.kind), uint64(len(b)))
	}
	return nil
}

func malformed(expected, found uint64) error {
	return reason.Detail{Reason: reason.HostMessage, Expected: expected, Found: found}.Err()
}

// A coder writes fields to out, or reads them from in. A missing or invalid field in the input
// sets bad.
type coder struct {
	in, out []byte
	writing bool
	bad     bool
}

// bytes writes b, or reads len(b) bytes into it.
func (c *coder) bytes(b []byte) {
	switch {
	case c.writing:
		c.out = append(c.out, b...)
	case len(c.in) < len(b):
		c.bad, c.in = true, nil
		clear(b)
	default:
		c.in = c.in[copy(b, c.in):]
	}
}

func (c *coder) number(v *uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], *v)
	c.bytes(b[:])
	*v = binary.LittleEndian.Uint64(b[:])
}

func (c *coder) id(v *uint32) {
	var b [4]byte
	binary.LittleEndian.PutUint32(b[:], *v)
	c.bytes(b[:])
	*v = binary.LittleEndian.Uint32(b[:])
}

// small codes a number of one byte between low and high.
func (c *coder) small(v *int, low, high int) {
	b := [1]byte{byte(*v)}
	c.bytes(b[:])
	*v = int(b[0])
	if *v < low || *v > high {
		c.bad, *v = true, low
	}
}

func (c *coder) mode(m *Mode) {
	v := int(*m)
	c.small(&v, 0, len(modeNames)-1)
	*m = Mode(v)
}

// share codes which lanes of its address the sender has.
func (c *coder) share(m *message) {
	c.small(&m.lanes, 1, MaxLanes)
	c.id(&m.first)
	c.id(&m.of)
	whole := m.first == 0 && m.of == 0
	if !whole && (m.of > maxOf || m.first >= m.of || m.first+uint32(m.lanes) > m.of) {
		c.bad = true
	}
}

func (c *coder) nonce(n *nonce) { c.bytes(n[:]) }

func (c *coder) text(s *string, limit int) {
	n := len(*s)
	c.small(&n, 0, limit)
	if c.writing {
		c.out = append(c.out, *s...)
		return
	}
	b := make([]byte, n)
	c.bytes(b)
	*s = string(b)
}

func (c *coder) endpoint(e *netip.AddrPort) {
	var s string
	if c.writing {
		s = e.String()
	}
	c.text(&s, maxText)
	if c.writing {
		return
	}
	found, err := netip.ParseAddrPort(s)
	if err != nil || found.String() != s {
		c.bad = true
	}
	*e = found
}
