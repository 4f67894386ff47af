package perf

import "encoding/binary"

// SampleCounters is the number of counters of a sample. The attributes have room for 15.
const SampleCounters = 5

// A Quantity is the quantity that a counter of a sample counts (IBTA 16.1.3.3).
type Quantity uint16

// The quantities that every node can sample.
const (
	SampleNothing Quantity = iota
	SampleXmitData
	SampleRcvData
	SampleXmitPackets
	SampleRcvPackets
	SampleXmitWait
)

// States of a sample (IBTA 16.1.3.2, SampleStatus).
const (
	SampleDone    = 0
	SampleStarted = 1 // SampleStart has not passed
	SampleRunning = 2
)

// CounterWidth32 is the CounterWidth of counters of 32 bits.
const CounterWidth32 = 4

// SamplesControl starts a sample: counting for an interval (IBTA 16.1.3.2).
//
//	 0 |    OpCode     |  PortSelect   |     Tick      |  Rsvd   |Width|
//	 4 |Res|                      CounterMask 0 to 9                   |
//	 8 |Rsv|   CounterMask 10 to 14    |SampleMechanism|  Rsvd     |Sta|
//	12 |                      OptionMask, VendorMask                   |
//	28 |                          SampleStart                          |
//	32 |                        SampleInterval                         |
//	36 |              Tag              |   CounterSelect0 to 14 …      |
type SamplesControl struct {
	Port       uint8
	Tick       uint8 // n for n+1 times 4 ns
	Width      uint8 // 3 bits
	Mechanisms uint8 // that the node has besides one
	Status     uint8 // 2 bits
	Start      uint32
	Interval   uint32 // in ticks, as Start
	Tag        uint16
	Select     [SampleCounters]Quantity
}

// Parse reads what a Set writes.
func (s *SamplesControl) Parse(b *[DataLen]byte) {
	*s = SamplesControl{Port: b[1], Tick: b[2], Width: b[3] & 7, Mechanisms: b[10], Status: b[11] & 3,
		Start: binary.BigEndian.Uint32(b[28:]), Interval: binary.BigEndian.Uint32(b[32:]), Tag: binary.BigEndian.Uint16(b[36:])}
	for i := range s.Select {
		s.Select[i] = Quantity(binary.BigEndian.Uint16(b[38+2*i:]))
	}
}

// Put writes the attribute. Each of the counters can count every quantity, and those beyond
// SampleCounters do not exist.
func (s *SamplesControl) Put(b *[DataLen]byte) {
	clear(b[:])
	b[1], b[2], b[3] = s.Port, s.Tick, s.Width&7
	mask := uint32(0)
	for i := range s.Select {
		mask |= 1 << (3 * (9 - i))
		binary.BigEndian.PutUint16(b[38+2*i:], uint16(s.Select[i]))
	}
	binary.BigEndian.PutUint32(b[4:], mask)
	b[10], b[11] = s.Mechanisms, s.Status&3
	binary.BigEndian.PutUint32(b[28:], s.Start)
	binary.BigEndian.PutUint32(b[32:], s.Interval)
	binary.BigEndian.PutUint16(b[36:], s.Tag)
}

// SamplesResult is the result of a sample (IBTA 16.1.3.4).
type SamplesResult struct {
	Tag      uint16
	Status   uint8
	Counters [SampleCounters]uint32
}

// Parse reads the attribute.
func (s *SamplesResult) Parse(b *[DataLen]byte) {
	s.Tag, s.Status = binary.BigEndian.Uint16(b[0:]), b[3]&3
	for i := range s.Counters {
		s.Counters[i] = binary.BigEndian.Uint32(b[4+4*i:])
	}
}

// Put writes the attribute.
func (s *SamplesResult) Put(b *[DataLen]byte) {
	clear(b[:])
	binary.BigEndian.PutUint16(b[0:], s.Tag)
	b[3] = s.Status & 3
	for i := range s.Counters {
		binary.BigEndian.PutUint32(b[4+4*i:], s.Counters[i])
	}
}
