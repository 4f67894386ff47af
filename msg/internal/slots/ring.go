package slots

import "softrdma/verbs"

const (
	RingLen     = 64 // slots of a Ring
	signalEvery = 16 // frames of which one has a completion; less than RingLen
)

// A Ring has the slots of frames that are being sent, in order. Few frames have a completion, because it
// says that all frames before are complete as well.
type Ring struct {
	ring     [RingLen]uint8
	first, n int    // of ring
	silent   int    // the newest without a completion
	Total    uint64 // that were ever added
}

// Add adds the slot of a frame that is about to be posted. It returns the frame's flags. The last frames
// of a connection all have a completion.
func (s *Ring) Add(i int, signal bool) verbs.SendFlags {
	s.ring[(s.first+s.n)%RingLen] = uint8(i)
	s.n++
	s.Total++
	if s.silent++; s.silent < signalEvery && !signal {
		return 0
	}
	s.silent = 0
	return verbs.Signaled
}

// UpTo appends slot i and those before it to vacant, and returns that. They are complete.
func (s *Ring) UpTo(i int, vacant []int) []int {
	for s.n > 0 {
		slot := int(s.take())
		vacant = append(vacant, slot)
		if slot == i {
			break
		}
	}
	return vacant
}

// Before appends the slots of the first total frames to vacant.
func (s *Ring) Before(total uint64, vacant []int) []int {
	for s.Total-uint64(s.n) < total {
		vacant = append(vacant, int(s.take()))
	}
	return vacant
}

func (s *Ring) take() uint8 {
	slot := s.ring[s.first]
	s.first = (s.first + 1) % RingLen
	s.n--
	return slot
}
