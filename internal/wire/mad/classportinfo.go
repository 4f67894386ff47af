package mad

import "encoding/binary"

// ClassPortInfoLen is the length of a ClassPortInfo in bytes.
const ClassPortInfoLen = 72

// ClassPortInfo describes the agent of a class, and where its traps go (IBTA
// 13.4.8.1).
//
//	 0 |  BaseVersion  | ClassVersion  |        CapabilityMask         |
//	 4 |                  CapabilityMask2                    |RespTimeV|
//	 8 |                    RedirectGID (16 bytes)                     |
//	24 |  RedirectTC   |RedirSL|             RedirectFL                |
//	28 |          RedirectLID          |         RedirectP_Key         |
//	32 |   Reserved    |                  RedirectQP                   |
//	36 |                         RedirectQ_Key                         |
//	40 |                      TrapGID (16 bytes)                       |
//	56 |    TrapTC     |TrapSL |               TrapFL                  |
//	60 |            TrapLID            |          TrapP_Key            |
//	64 |    TrapHL     |                    TrapQP                     |
//	68 |                          TrapQ_Key                            |
type ClassPortInfo struct {
	BaseVersion     uint8
	ClassVersion    uint8
	CapabilityMask  uint16
	CapabilityMask2 uint32 // 27 bits
	RespTime        uint8  // 5 bits: 4.096 µs times 2 to its power
	Redirect, Trap  ClassPort
	TrapHopLimit    uint8
}

// A ClassPort is where packets of a class go.
type ClassPort struct {
	GID          GID
	TrafficClass uint8
	SL           uint8  // 4 bits
	FlowLabel    uint32 // 20 bits
	LID          uint16
	PKey         uint16
	QPN          uint32 // 24 bits
	QKey         uint32
}

// Parse reads the attribute.
func (c *ClassPortInfo) Parse(b *[ClassPortInfoLen]byte) {
	c.BaseVersion, c.ClassVersion = b[0], b[1]
	c.CapabilityMask = binary.BigEndian.Uint16(b[2:])
	v := binary.BigEndian.Uint32(b[4:])
	c.CapabilityMask2, c.RespTime = v>>5, uint8(v&0x1f)
	c.Redirect.parse(b[8:])
	c.Trap.parse(b[40:])
	c.TrapHopLimit = b[64]
}

// Put writes the attribute.
func (c *ClassPortInfo) Put(b *[ClassPortInfoLen]byte) {
	b[0], b[1] = c.BaseVersion, c.ClassVersion
	binary.BigEndian.PutUint16(b[2:], c.CapabilityMask)
	binary.BigEndian.PutUint32(b[4:], c.CapabilityMask2<<5|uint32(c.RespTime&0x1f))
	c.Redirect.put(b[8:])
	c.Trap.put(b[40:])
	b[64] = c.TrapHopLimit
}

func (p *ClassPort) parse(b []byte) {
	copy(p.GID[:], b)
	v := binary.BigEndian.Uint32(b[16:])
	p.TrafficClass, p.SL, p.FlowLabel = uint8(v>>24), uint8(v>>20&0xf), v&0xfffff
	p.LID, p.PKey = binary.BigEndian.Uint16(b[20:]), binary.BigEndian.Uint16(b[22:])
	p.QPN = get24(b[25:])
	p.QKey = binary.BigEndian.Uint32(b[28:])
}

func (p *ClassPort) put(b []byte) {
	copy(b, p.GID[:])
	binary.BigEndian.PutUint32(b[16:], uint32(p.TrafficClass)<<24|uint32(p.SL&0xf)<<20|p.FlowLabel&0xfffff)
	binary.BigEndian.PutUint16(b[20:], p.LID)
	binary.BigEndian.PutUint16(b[22:], p.PKey)
	put24(b[25:], p.QPN)
	binary.BigEndian.PutUint32(b[28:], p.QKey)
}
