package frame

import (
	"softrdma/internal/qp"
	"softrdma/internal/wire/ib"
)

// A Source is where batches come from: the beginning of their ICRC, and which IPv4
// identification, which a UDP socket does not show, their packets will have. The
// identification is a guess: where it fails the ICRC is solved for it (ib.Checker), with
// half of the ICRC's strength.
type Source struct {
	From, To qp.Endpoint
	Class    Class // of the batch
	LRH      qp.LinkRoute
	Front    int  // bytes in front of each packet's BTH
	Intact   bool // the link has proved that the batch's packets are as they were sent
	CRC      ib.Prefix
	Checker  *ib.Checker // shared by the sources of a lane

	first  uint16 // identification of the last batch's first packet
	prev   uint16 // one more than that of the last batch's last packet
	next   uint16 // expected of the next packet
	opened bool   // a packet of the batch was counted

	// packets says that identifications count packets; otherwise datagrams, as
	// those of a connected socket do, whose batches are datagrams.
	packets bool
}

// Begin begins a batch.
func (s *Source) Begin() {
	s.prev = s.next
	s.next, s.opened = s.expected(), false
}

// expected is the identification to expect of a batch's first packet. Those of
// an unconnected socket are 0.
func (s *Source) expected() uint16 {
	switch {
	case s.first == 0:
		return 0
	case s.packets:
		return s.prev
	}
	return s.first + 1
}

// Check reports whether the batch's next packet, given from BTH to ICRC, has the right
// ICRC. If not, call Skip before the packet after it. The ICRC of a batch that is Intact is not computed: the link
// has checked all of the packet by a stronger value, and IBTA 7.8.1 protects against errors on the way only.
func (s *Source) Check(packet []byte) bool {
	if s.Intact {
		return true
	}
	id, ok := s.Checker.Check(&s.CRC, s.next, packet)
	if !ok {
		return false
	}
	if !s.opened {
		s.learn(id)
	}
	s.next, s.opened = id+1, true
	return true
}

// learn notes the identification of a batch's first packet.
func (s *Source) learn(id uint16) {
	if id != s.expected() {
		s.packets = id == s.prev
	}
	s.first = id
}

// Skip counts a packet whose ICRC is wrong.
func (s *Source) Skip() { s.next, s.opened = s.next+1, true }

// ID is the identification of the packet that was counted last, as far as it is known.
func (s *Source) ID() uint16 { return s.next - 1 }

// Sum is the ICRC that the packet counted last should have.
func (s *Source) Sum(packet []byte) uint32 { return s.CRC.Sum(s.ID(), packet) }
