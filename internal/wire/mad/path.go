package mad

import "encoding/binary"

// A Path is one of the two paths of a REQ, seen from its sender (IBTA 12.6.5).
//
//	 0 |        Local Port LID         |        Remote Port LID        |
//	 4 |                        Local Port GID                         |
//	   |                          (16 bytes)                           |
//	20 |                        Remote Port GID                        |
//	   |                          (16 bytes)                           |
//	36 |              Flow Label               | Reserved  |Packet Rate|
//	40 | Traffic Class |   Hop Limit   |  SL   |L|Resv | AckTimeout|Rsv|
type Path struct {
	LocalLID, RemoteLID uint16
	LocalGID, RemoteGID GID
	FlowLabel           uint32 // 20 bits
	PacketRate          uint8  // 6 bits
	TrafficClass        uint8
	HopLimit            uint8
	SL                  uint8 // 4 bits
	SubnetLocal         bool
	AckTimeout          uint8 // 5 bits: 4.096 µs times 2 to its power
}

func (p *Path) parse(b []byte) {
	p.LocalLID = binary.BigEndian.Uint16(b)
	p.RemoteLID = binary.BigEndian.Uint16(b[2:])
	copy(p.LocalGID[:], b[4:])
	copy(p.RemoteGID[:], b[20:])
	p.FlowLabel = binary.BigEndian.Uint32(b[36:]) >> 12
	p.PacketRate = b[39] & 0x3f
	p.TrafficClass, p.HopLimit = b[40], b[41]
	p.SL, p.SubnetLocal = b[42]>>4, b[42]&8 != 0
	p.AckTimeout = b[43] >> 3
}

func (p *Path) put(b []byte) {
	binary.BigEndian.PutUint16(b, p.LocalLID)
	binary.BigEndian.PutUint16(b[2:], p.RemoteLID)
	copy(b[4:20], p.LocalGID[:])
	copy(b[20:36], p.RemoteGID[:])
	binary.BigEndian.PutUint32(b[36:], p.FlowLabel<<12|uint32(p.PacketRate&0x3f))
	b[40], b[41] = p.TrafficClass, p.HopLimit
	b[42] = p.SL<<4 | bit(p.SubnetLocal)<<3
	b[43] = p.AckTimeout << 3
}

// IsZero reports whether the syndrome is a path that is not there: a REQ without an alternate path.
func (p *Path) IsZero() bool { return p.LocalLID == 0 && p.LocalGID == GID{} }
