package msg

import "softrdma/verbs"

// sentSlots are the slots of frames that are being sent, in order. Few frames have a completion, because
// it says that all frames before are complete as well.
type sentSlots struct {
	ring     [sendSlots]uint8
	first, n int    // of ring
	silent   int    // the newest without a completion
	total    uint64 // that were ever added
}

// add adds the slot of a frame that is about to be posted. It returns the frame's flags. The last frames
// of a connection all have a completion.
func (s *sentSlots) add(i int, signal bool) verbs.SendFlags {
	s.ring[(s.first+s.n)%sendSlots] = uint8(i)
	s.n++
	s.total++
	if s.silent++; s.silent < signalEvery && !signal {
		return 0
	}
	s.silent = 0
	return verbs.Signaled
}

// upTo appends slot i and those before it to vacant, and returns that. They are complete.
func (s *sentSlots) upTo(i int, vacant []int) []int {
	for s.n > 0 {
		slot := int(s.take())
		vacant = append(vacant, slot)
		if slot == i {
			break
		}
	}
	return vacant
}

// before appends the slots of the first total frames to vacant.
func (s *sentSlots) before(total uint64, vacant []int) []int {
	for s.total-uint64(s.n) < total {
		vacant = append(vacant, int(s.take()))
	}
	return vacant
}

func (s *sentSlots) take() uint8 {
	slot := s.ring[s.first]
	s.first = (s.first + 1) % sendSlots
	s.n--
	return slot
}
