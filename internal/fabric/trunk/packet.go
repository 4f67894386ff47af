package trunk

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"softrdma/internal/reason"
)

// Version is that of the protocol. Ends of different versions refuse each other.
const Version = 2

// MaxPacket is the length of the longest packet. It fits an Ethernet frame with IPv6, UDP and
// the headers of a usual tunnel.
const MaxPacket = 1400

// A kind is what a packet is.
type kind uint8

const (
	hello    kind = iota + 1 // opens a session
	data                     // part of the stream, and acknowledgement
	farewell                 // ends a session
	refusal                  // answers a Hello that opens none (see Listener)
)

// A Use is what lies beyond the two ends. Ends of different use refuse each other.
type Use uint8

// The uses.
const (
	Fabrics   Use = iota // a fabric of InfiniBand at both ends
	Program              // a program at one end (package relay)
	Ethernets            // an Ethernet at both ends
	uses
)

// String says what lies beyond an end.
func (u Use) String() string {
	if u < uses {
		return [...]string{"an InfiniBand fabric", "a program", "an Ethernet fabric"}[u]
	}
	return fmt.Sprintf("use %d", uint8(u))
}

func init() {
	reason.Name(reason.NumTrunkUse, func(n uint64) string { return Use(n).String() })
}

// A header begins each packet. All numbers are big-endian.
//
//	+---------+---------+---------+---------+
//	| version |  kind   |  cable  |   use   |
//	+---------+---------+---------+---------+
//	|                source                 |
//	|           (connection ID)             |
//	+---------------------------------------+
//	|              destination              |
//	|           (connection ID)             |
//	+---------------------------------------+
type header struct {
	version uint8
	kind    kind
	cable   uint8
	use     Use
	source  uint64
	dest    uint64 // 0 in a Hello whose sender does not know it
}

const headerLen = 20

func (h *header) put(b []byte) {
	b[0], b[1], b[2], b[3] = h.version, byte(h.kind), h.cable, byte(h.use)
	binary.BigEndian.PutUint64(b[4:], h.source)
	binary.BigEndian.PutUint64(b[12:], h.dest)
}

// parse reports whether b begins with a header.
func (h *header) parse(b []byte) bool {
	if len(b) < headerLen || len(b) > MaxPacket {
		return false
	}
	h.version, h.kind, h.cable, h.use = b[0], kind(b[1]), b[2], Use(b[3])
	h.source, h.dest = binary.BigEndian.Uint64(b[4:]), binary.BigEndian.Uint64(b[12:])
	return h.source != 0
}

// Cable returns the number of the cable that a packet is for, and reports whether it has one.
func Cable(packet []byte) (uint8, bool) {
	var h header
	return h.cable, h.parse(packet)
}

// A Peer is what the other end says of itself.
type Peer struct {
	Process uint64 // random number of the process
	Fabric  string // its name in that process
	Port    string // that the trunk leads to
}

// maxName is the length of the longest name in a Hello.
const maxName = 128

// macLen is the length of the authentication code at the end of a Hello: the begin of the
// HMAC-SHA256 of everything before it, by the secret.
const macLen = 16

// appendHello appends a Hello: the header, the process, the two names with their lengths, and
// the code.
func appendHello(b []byte, h header, p *Peer, secret []byte) []byte {
	b = append(b, make([]byte, headerLen)...)
	h.put(b)
	b = binary.BigEndian.AppendUint64(b, p.Process)
	for _, name := range [...]string{p.Fabric, p.Port} {
		name = name[:min(len(name), maxName)]
		b = append(b, byte(len(name)))
		b = append(b, name...)
	}
	return append(b, code(b, secret)...)
}

func code(b, secret []byte) []byte {
	m := hmac.New(sha256.New, secret)
	m.Write(b)
	return m.Sum(nil)[:macLen]
}

// authentic reports whether the code of a Hello is right.
func authentic(b, secret []byte) bool {
	at := len(b) - macLen
	return at >= headerLen && hmac.Equal(b[at:], code(b[:at], secret))
}

// parseHello reads what is between the header and the code.
func parseHello(b []byte) (p Peer, ok bool) {
	b = b[headerLen : len(b)-macLen]
	if len(b) < 8 {
		return p, false
	}
	p.Process = binary.BigEndian.Uint64(b)
	b = b[8:]
	for _, name := range [...]*string{&p.Fabric, &p.Port} {
		if len(b) == 0 || len(b) <= int(b[0]) || !printable(b[1:1+int(b[0])]) {
			return p, false
		}
		*name = string(b[1 : 1+int(b[0])])
		b = b[1+int(b[0]):]
	}
	return p, len(b) == 0
}

// printable reports whether a name has neither control characters nor bytes beyond ASCII.
func printable(b []byte) bool {
	for _, c := range b {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return len(b) <= maxName
}

// An ack tells which segments have arrived.
//
//	+---------------------------------------+
//	|     number of the packet's segment    |
//	+---------------------------------------+
//	|     number of the segment awaited     |
//	+---------------------------------------+
//	|      segments that arrived early:     |
//	|  bit i is segment awaited + 1 + i     |
//	|             (128 bits, low half first) |
//	+---------------------------------------+
type ack struct {
	number  uint32 // of the segment in this packet, if it has one
	awaited uint32
	early   bitmap
}

const (
	dataLen    = headerLen + 24
	maxPayload = MaxPacket - dataLen
)

func (a *ack) put(b []byte) {
	binary.BigEndian.PutUint32(b[headerLen:], a.number)
	binary.BigEndian.PutUint32(b[headerLen+4:], a.awaited)
	binary.BigEndian.PutUint64(b[headerLen+8:], a.early[0])
	binary.BigEndian.PutUint64(b[headerLen+16:], a.early[1])
}

// parse reports whether b has an ack behind its header.
func (a *ack) parse(b []byte) bool {
	if len(b) < dataLen {
		return false
	}
	a.number, a.awaited = binary.BigEndian.Uint32(b[headerLen:]), binary.BigEndian.Uint32(b[headerLen+4:])
	a.early = bitmap{binary.BigEndian.Uint64(b[headerLen+8:]), binary.BigEndian.Uint64(b[headerLen+16:])}
	return true
}

// A bitmap is the segments of a window but the first.
type bitmap [2]uint64

func (m *bitmap) has(i uint32) bool { return m[i/64]>>(i%64)&1 != 0 }
func (m *bitmap) set(i uint32)      { m[i/64] |= 1 << (i % 64) }

// shift moves the window by one segment, and reports whether the new first one is in it.
func (m *bitmap) shift() bool {
	first := m[0]&1 != 0
	m[0] = m[0]>>1 | m[1]<<63
	m[1] >>= 1
	return first
}

// A farewell has the reason behind the header: its number and both values.
const farewellLen = headerLen + 2 + 16
