package carrier

import "softrdma/verbs"

// slots have the frames that a connection sends. Those of the owner come first, then the connection's own.
type slots struct {
	own    *Frames   // the owner's
	region *verbs.MR // of own
	first  int       // of out
	out    Frames
	vacant []int // of out
	sent   ring
	inline int         // bytes of a frame up to which the queue pair copies it
	sges   []verbs.SGE // of frames in flight
}

func newSlots(cfg *ConnConfig) slots {
	n := cfg.OutSlots + cfg.Slots
	every := min(cfg.Every, cfg.Slots) // or all slots would be in flight without a completion
	if cfg.OutSlots > 0 {
		every = 1 // the owner waits for each
	}
	return slots{own: cfg.Out, first: cfg.OutSlots, sent: newRing(n, every), inline: cfg.Inline, sges: make([]verbs.SGE, n)}
}

// vacate makes all slots of the connection vacant.
func (s *slots) vacate(cfg *ConnConfig) {
	for i := range cfg.Slots {
		s.vacant = append(s.vacant, s.first+i)
	}
}

// take takes a vacant slot.
func (s *slots) take() int {
	i := s.vacant[len(s.vacant)-1]
	s.vacant = s.vacant[:len(s.vacant)-1]
	return i
}

// bytes returns the memory of a slot.
func (s *slots) bytes(i int) []byte {
	if i < s.first {
		return s.own.Bytes(i)
	}
	return s.out.Bytes(i - s.first)
}

// request returns the request that sends the frame of n bytes in a slot.
func (s *slots) request(i, n int) verbs.SendWR {
	r := verbs.SendWR{Op: verbs.OpSend, Flags: s.sent.add(i)}
	switch {
	case n <= s.inline:
		r.Inline = s.bytes(i)[:n]
		return r
	case i < s.first:
		s.sges[i] = s.own.entry(s.region, i, n)
	default:
		s.sges[i] = s.out.entry(s.out.regions[0].MR, i-s.first, n)
	}
	r.SGL = s.sges[i : i+1]
	return r
}
