package ib

import (
	"encoding/binary"

	"softrdma/internal/psn"
)

// BTHLen is the length of the base transport header in bytes.
const BTHLen = 12

// A BTH is the base transport header (IBTA 9.2).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+---------------+-+-+---+-------+-------------------------------+
//	|    OpCode     |S|M|Pad| TVer  |        Partition Key          |
//	+---------------+-+-+---+-------+-------------------------------+
//	|F|B| Reserved  |             Destination QP                    |
//	+-+-+-----------+-----------------------------------------------+
//	|A|S|K|C|D|W|T|R|             Packet Sequence Number            |
//	+-+-+-+-+-+-+-+-+-----------------------------------------------+
//
// S, K, C, D, W and T are softrdma's own. They are reserved bits, which others send as zero and
// ignore, and which the ICRC covers:
//
//   - S: the sender understands selective acknowledges.
//   - K: the responder is to keep the READ or atomic beyond the number agreed on.
//   - C: the packet was sent twice: drop it if the other one arrived.
//   - D: nothing from this PSN on was sent before: what is held of it is forged.
//   - W: of a request: the sender would have more in flight than the receiver holds; of a
//     selective acknowledge: it says how much that is (own.WideAck).
//   - T: of a request: the sender takes telemetry of switches (own.Telemetry).
//
// F and B are the FECN and BECN bits of annex A10, in the byte that the ICRC
// leaves out (resv8a). RoCE v2 does not use them and ignores them (A17.4.8,
// CA17-29): its marks of congestion are the IP header's.
type BTH struct {
	Opcode    Opcode
	Solicited bool
	MigReq    bool
	Pad       uint8 // bytes of padding after the payload, 0..3
	Version   uint8 // transport header version, 0
	PKey      uint16
	FECN      bool
	BECN      bool
	DestQPN   uint32 // 24 bits
	AckReq    bool
	Selective bool // S
	Keep      bool // K
	Copy      bool // C
	Disown    bool // D
	Wide      bool // W
	Telemetry bool // T
	PSN       psn.PSN
}

// Parse reads the header at the beginning of b, which may hold no more than that, as
// if ICMP quotes a packet. It reports whether b is long enough.
func (h *BTH) Parse(b []byte) bool {
	if len(b) < BTHLen {
		return false
	}
	h.parse(b)
	return true
}

func (h *BTH) parse(b []byte) {
	_ = b[BTHLen-1]
	h.Opcode = Opcode(b[0])
	h.Solicited = b[1]&0x80 != 0
	h.MigReq = b[1]&0x40 != 0
	h.Pad = b[1] >> 4 & 3
	h.Version = b[1] & 0xf
	h.PKey = binary.BigEndian.Uint16(b[2:])
	q := binary.BigEndian.Uint32(b[DestQPNOffset:])
	h.FECN, h.BECN = q&(1<<31) != 0, q&(1<<30) != 0
	h.DestQPN = q & DestQPNMask
	p := binary.BigEndian.Uint32(b[8:])
	h.AckReq, h.Selective, h.Keep, h.Copy, h.Disown, h.Wide, h.Telemetry = p&(1<<31) != 0, p&(1<<30) != 0, p&(1<<29) != 0, p&(1<<28) != 0, p&(1<<27) != 0, p&(1<<26) != 0, p&(1<<25) != 0
	h.PSN = psn.New(p)
}

func (h *BTH) put(b []byte) {
	_ = b[BTHLen-1]
	b[0] = byte(h.Opcode)
	b[1] = bit(h.Solicited, 7) | bit(h.MigReq, 6) | h.Pad&3<<4 | h.Version&0xf
	binary.BigEndian.PutUint16(b[2:], h.PKey)
	binary.BigEndian.PutUint32(b[DestQPNOffset:], h.DestQPN&DestQPNMask|uint32(bit(h.FECN, 7)|bit(h.BECN, 6))<<24)
	binary.BigEndian.PutUint32(b[8:], uint32(h.PSN)|uint32(bit(h.AckReq, 7)|bit(h.Selective, 6)|bit(h.Keep, 5)|bit(h.Copy, 4)|bit(h.Disown, 3)|bit(h.Wide, 2)|bit(h.Telemetry, 1))<<24)
}

func bit(set bool, n uint) byte {
	if set {
		return 1 << n
	}
	return 0
}
