package dcb

import (
	"math/bits"

	"softrdma/internal/wire/ethernet"
)

// A selector chooses the priority whose frame leaves next (802.1Q 8.6.8). Classes of strict
// priority come first, the highest one first. The others share what remains by their percentages,
// and what a class does not use goes to the others (802.1Q 37.3). The priorities of a class are
// served in turn.
//
// Shares come from start-time fair queueing (Goyal et al., 1996): each class has the virtual time
// at which its next frame starts, and the earliest one is next.
type selector struct {
	active  uint8 // priorities that could be chosen last time
	classes uint8 // of these priorities
	strict  uint8 // classes
	single  bool  // all priorities are in one class
	class   [ethernet.Priorities]uint8
	members [ethernet.Classes]uint8 // priorities of each class
	last    [ethernet.Classes]uint8 // priority of each class that was served last
	cost    [ethernet.Classes]uint32
	start   [ethernet.Classes]uint64
	now     uint64
}

// costScale is the virtual time of a byte of a class with 100 percent.
const costScale = 1 << 8

// idlePercent is the share of a class with 0 percent, in hundredths of a percent: it gets the
// bandwidth that no other class uses.
const idlePercent = 1

func (s *selector) init(e *ethernet.ETS) {
	*s = selector{}
	for i, c := range e.Class {
		c %= ethernet.Classes
		s.class[i] = c
		s.members[c] |= 1 << i
	}
	s.single = s.members[e.Class[0]%ethernet.Classes] == 0xff
	for c, a := range e.Algorithm {
		s.cost[c] = 100 * 100 * costScale / max(idlePercent, 100*uint32(e.Percent[c]))
		if a == ethernet.Strict && !s.single {
			s.strict |= 1 << c
		}
	}
}

// choose returns one of the priorities that can send, of which there is at least one.
func (s *selector) choose(can uint8) uint8 {
	var classes uint8
	for set := can; set != 0; set &= set - 1 {
		classes |= 1 << s.class[bits.TrailingZeros8(set)]
	}
	// A class that could not send has not saved up its share.
	for set := classes &^ s.classes; set != 0; set &= set - 1 {
		c := bits.TrailingZeros8(set)
		s.start[c] = max(s.start[c], s.now)
	}
	s.active, s.classes = can, classes
	if strict := classes & s.strict; strict != 0 {
		return s.turn(uint8(bits.Len8(strict)-1), can)
	}
	best := uint8(bits.TrailingZeros8(classes))
	for set := classes & (classes - 1); set != 0; set &= set - 1 {
		if c := uint8(bits.TrailingZeros8(set)); s.start[c] < s.start[best] {
			best = c
		}
	}
	return s.turn(best, can)
}

// turn returns the priority of a class whose turn it is.
func (s *selector) turn(class, can uint8) uint8 {
	can &= s.members[class]
	if after := can &^ (2<<s.last[class] - 1); after != 0 {
		can = after
	}
	return uint8(bits.TrailingZeros8(can))
}

// sent charges the class of a priority for a frame.
func (s *selector) sent(priority uint8, length int) {
	c := s.class[priority]
	s.last[c] = priority
	s.now = s.start[c]
	s.start[c] += uint64(length) * uint64(s.cost[c])
}
