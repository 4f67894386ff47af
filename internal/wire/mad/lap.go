package mad

import "encoding/binary"

// LAPPrivateLen is how many bytes of private data a LAP carries.
const LAPPrivateLen = 168

// A LAP asks to load an alternate path (IBTA 12.8.1).
//
//	 0 |                    Local Communication ID                     |
//	 4 |                    Remote Communication ID                    |
//	 8 |                           Reserved                            |
//	12 |              Remote QPN/EECN                  |RemTimeout|Rsv |
//	16 |                           Reserved                            |
//	20 |        Local Port LID         |        Remote Port LID        |
//	24 |      Alternate Local Port GID (16 bytes)                      |
//	40 |      Alternate Remote Port GID (16 bytes)                     |
//	56 |              Flow Label               | Rsvd  | Traffic Class |
//	60 |   Hop Limit   |Rsv|Packet Rate|  SL   |L|Resv | AckTimeout|Rsv|
//	64 |      Private Data (168 bytes)                                 |
type LAP struct {
	LocalID, RemoteID     uint32
	RemoteQPN             uint32 // of the receiver, 24 bits
	RemoteResponseTimeout uint8  // 5 bits
	Alternate             Path
	Private               [LAPPrivateLen]byte
}

// Parse reads the message.
func (m *LAP) Parse(d *[Len]byte) {
	b := d[HeaderLen:]
	m.LocalID = binary.BigEndian.Uint32(b)
	m.RemoteID = binary.BigEndian.Uint32(b[4:])
	m.RemoteQPN, m.RemoteResponseTimeout = get24(b[12:]), b[15]>>3
	p := &m.Alternate
	p.LocalLID = binary.BigEndian.Uint16(b[20:])
	p.RemoteLID = binary.BigEndian.Uint16(b[22:])
	copy(p.LocalGID[:], b[24:])
	copy(p.RemoteGID[:], b[40:])
	p.FlowLabel, p.TrafficClass = binary.BigEndian.Uint32(b[56:])>>12, b[59]
	p.HopLimit, p.PacketRate = b[60], b[61]&0x3f
	p.SL, p.SubnetLocal, p.AckTimeout = b[62]>>4, b[62]&8 != 0, b[63]>>3
	copy(m.Private[:], b[64:])
}

// Put writes the message after the header, which is already in d.
func (m *LAP) Put(d *[Len]byte) {
	b := d[HeaderLen:]
	binary.BigEndian.PutUint32(b, m.LocalID)
	binary.BigEndian.PutUint32(b[4:], m.RemoteID)
	put24(b[12:], m.RemoteQPN)
	b[15] = m.RemoteResponseTimeout << 3
	p := &m.Alternate
	binary.BigEndian.PutUint16(b[20:], p.LocalLID)
	binary.BigEndian.PutUint16(b[22:], p.RemoteLID)
	copy(b[24:40], p.LocalGID[:])
	copy(b[40:56], p.RemoteGID[:])
	binary.BigEndian.PutUint32(b[56:], p.FlowLabel<<12|uint32(p.TrafficClass))
	b[60], b[61] = p.HopLimit, p.PacketRate&0x3f
	b[62] = p.SL<<4 | bit(p.SubnetLocal)<<3
	b[63] = p.AckTimeout << 3
	copy(b[64:], m.Private[:])
}
