package ethernet

import "encoding/binary"

// Classes is the number of traffic classes of a link (802.1Q 8.6.6).
const Classes = 8

// A Selection is how a traffic class is selected for transmission (802.1Q table 8-5).
type Selection uint8

// The algorithms that LLDP names. Others are reserved.
const (
	Strict      Selection = 0
	CreditBased Selection = 1
	Enhanced    Selection = 2 // ETS: by its share of the bandwidth
	Vendor      Selection = 255
)

// An ETS is enhanced transmission selection: the classes of priorities, and how the classes share
// the link (802.1Q D.2.8, D.2.9). A recommendation has neither Willing, CreditShaper nor Count.
//
//	+---+---+-----+-----+----------------+------------------+------------------+
//	| W | C | 0:3 | n:3 | class of each  | percent of each  | algorithm of     |
//	|   |   |     |     | priority: 8*4  | class: 8*8       | each class: 8*8  |
//	+---+---+-----+-----+----------------+------------------+------------------+
type ETS struct {
	Willing      bool // takes what the other end recommends
	CreditShaper bool
	Count        uint8 // classes that the port has; 0 means 8
	Class        [Priorities]uint8
	Percent      [Classes]uint8
	Algorithm    [Classes]Selection
}

const etsLen = 1 + Priorities/2 + 2*Classes

func (e *ETS) append(b []byte, recommendation bool) []byte {
	first := e.Count & 7
	if e.Willing {
		first |= 0x80
	}
	if e.CreditShaper {
		first |= 0x40
	}
	if recommendation {
		first = 0
	}
	b = append(b, first)
	for i := 0; i < Priorities; i += 2 {
		b = append(b, e.Class[i]<<4|e.Class[i+1]&0xf)
	}
	b = append(b, e.Percent[:]...)
	for _, a := range e.Algorithm {
		b = append(b, byte(a))
	}
	return b
}

func (e *ETS) parse(b []byte, recommendation bool) bool {
	if len(b) != etsLen {
		return false
	}
	*e = ETS{}
	if !recommendation {
		e.Willing, e.CreditShaper, e.Count = b[0]&0x80 != 0, b[0]&0x40 != 0, b[0]&7
	}
	for i := range e.Class {
		e.Class[i] = b[1+i/2] >> (4 * (1 - i%2)) & 0xf
	}
	copy(e.Percent[:], b[1+Priorities/2:])
	for i := range e.Algorithm {
		e.Algorithm[i] = Selection(b[1+Priorities/2+Classes+i])
	}
	return true
}

// A PFC is which priorities of a link are lossless (802.1Q D.2.10).
//
//	+---+-----+-----+-------+-----------+
//	| W | MBC | 0:2 | cap:4 | enable: 8 |
//	+---+-----+-----+-------+-----------+
type PFC struct {
	Willing bool
	Bypass  bool  // MBC: cannot do without the extra delay of MACsec
	Limit   uint8 // lossless priorities that the port can have at once; 0 means 8
	Enable  uint8 // bit i: priority i
}

const pfcLen = 2

func (p *PFC) append(b []byte) []byte {
	first := p.Limit & 0xf
	if p.Willing {
		first |= 0x80
	}
	if p.Bypass {
		first |= 0x40
	}
	return append(b, first, p.Enable)
}

func (p *PFC) parse(b []byte) bool {
	if len(b) != pfcLen {
		return false
	}
	*p = PFC{Willing: b[0]&0x80 != 0, Bypass: b[0]&0x40 != 0, Limit: b[0] & 0xf, Enable: b[1]}
	return true
}

// A Selector says what an Application's number is (802.1Q table D-9).
type Selector uint8

// The selectors.
const (
	ByEtherType Selector = 1
	ByTCP       Selector = 2 // port of TCP or SCTP
	ByUDP       Selector = 3 // port of UDP or DCCP
	ByPort      Selector = 4 // port of any of them
	ByDSCP      Selector = 5
)

// An Application is the priority of an application's frames (802.1Q D.2.11).
type Application struct {
	Priority uint8
	Selector Selector
	Number   uint16
}

const applicationLen = 3

// maxApplications fit into an element of LLDP with its header of five bytes.
const maxApplications = (maxElement - organizationLen - 1) / applicationLen

func appendApplications(b []byte, all []Application) []byte {
	b = append(b, 0)
	for _, a := range all[:min(len(all), maxApplications)] {
		b = append(b, a.Priority<<5|uint8(a.Selector)&7)
		b = binary.BigEndian.AppendUint16(b, a.Number)
	}
	return b
}

func parseApplications(b []byte) (all []Application, ok bool) {
	if len(b)%applicationLen != 1 {
		return nil, false
	}
	for b = b[1:]; len(b) > 0; b = b[applicationLen:] {
		all = append(all, Application{b[0] >> 5, Selector(b[0] & 7), binary.BigEndian.Uint16(b[1:])})
	}
	return all, true
}
