package smp

import "encoding/binary"

// SwitchInfo has the capacities of a switch, and what holds for all its ports
// (IBTA 14.2.5.4).
//
//	 0 |       LinearFDBCap            |         RandomFDBCap          |
//	 4 |      MulticastFDBCap          |         LinearFDBTop          |
//	 8 |  DefaultPort  |DefMcastPrimary|DefMcastNotPrim| LifeTime|C|Opt|
//	12 |         LIDsPerPort           |      PartitionEnforceCap      |
//	16 |I|O|i|o|E|  Reserved  |   Reserved    |   MulticastFDBTop        |
//
// C is PortStateChange, Opt OptimizedSLtoVLMappingProgramming. I and O are the
// capabilities to enforce partitions of arriving and leaving packets, i and o
// to filter raw ones. E means that port 0 is enhanced.
type SwitchInfo struct {
	LinearCap                  uint16
	RandomCap                  uint16
	MulticastCap               uint16
	LinearTop                  uint16
	DefaultPort                uint8
	DefaultMulticastPrimary    uint8
	DefaultMulticastNotPrimary uint8
	LifeTime                   uint8 // 5 bits: 4.096 µs times 2 to its power; above 19 unlimited
	PortStateChange            bool
	OptimizedSLtoVL            uint8 // 2 bits
	LIDsPerPort                uint16
	PartitionCap               uint16
	EnforceInbound             bool
	EnforceOutbound            bool
	FilterRawInbound           bool
	FilterRawOutbound          bool
	EnhancedPort0              bool
	MulticastTop               uint16
}

// SwitchInfoLen is the length of a SwitchInfo in bytes.
const SwitchInfoLen = 20

// Parse reads the attribute.
func (s *SwitchInfo) Parse(b *[DataLen]byte) {
	s.LinearCap = binary.BigEndian.Uint16(b[0:])
	s.RandomCap = binary.BigEndian.Uint16(b[2:])
	s.MulticastCap = binary.BigEndian.Uint16(b[4:])
	s.LinearTop = binary.BigEndian.Uint16(b[6:])
	s.DefaultPort, s.DefaultMulticastPrimary, s.DefaultMulticastNotPrimary = b[8], b[9], b[10]
	s.LifeTime, s.PortStateChange, s.OptimizedSLtoVL = b[11]>>3, b[11]&4 != 0, b[11]&3
	s.LIDsPerPort = binary.BigEndian.Uint16(b[12:])
	s.PartitionCap = binary.BigEndian.Uint16(b[14:])
	s.EnforceInbound, s.EnforceOutbound = b[16]&0x80 != 0, b[16]&0x40 != 0
	s.FilterRawInbound, s.FilterRawOutbound = b[16]&0x20 != 0, b[16]&0x10 != 0
	s.EnhancedPort0 = b[16]&8 != 0
	s.MulticastTop = binary.BigEndian.Uint16(b[18:])
}

// Put writes the attribute.
func (s *SwitchInfo) Put(b *[DataLen]byte) {
	binary.BigEndian.PutUint16(b[0:], s.LinearCap)
	binary.BigEndian.PutUint16(b[2:], s.RandomCap)
	binary.BigEndian.PutUint16(b[4:], s.MulticastCap)
	binary.BigEndian.PutUint16(b[6:], s.LinearTop)
	b[8], b[9], b[10] = s.DefaultPort, s.DefaultMulticastPrimary, s.DefaultMulticastNotPrimary
	b[11] = s.LifeTime<<3 | bit(s.PortStateChange, 2) | s.OptimizedSLtoVL&3
	binary.BigEndian.PutUint16(b[12:], s.LIDsPerPort)
	binary.BigEndian.PutUint16(b[14:], s.PartitionCap)
	b[16] = bit(s.EnforceInbound, 7) | bit(s.EnforceOutbound, 6) | bit(s.FilterRawInbound, 5) |
		bit(s.FilterRawOutbound, 4) | bit(s.EnhancedPort0, 3)
	binary.BigEndian.PutUint16(b[18:], s.MulticastTop)
}
