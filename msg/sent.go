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

// send sends the frame of n bytes in a slot with the next Worker.flush. So frames that leave for one
// reason leave together: those that waited for credits, or credits and the answers of handlers.
func (c *connection) send(i, n int) {
	if len(c.unposted) == 0 {
		c.w.dirty = append(c.w.dirty, c)
	}
	c.pipeline.unsure = true
	r := verbs.SendWR{WRID: c.id(workSend, i), Op: verbs.OpSend, Flags: c.sent.add(i, c.closing)}
	if n <= shortAccess {
		r.Inline = c.out.bytes(i)[:n]
	} else {
		c.frames[i] = c.out.region.SGE(i*c.out.size, n)
		r.SGL = c.frames[i : i+1]
	}
	c.unposted = append(c.unposted, r)
}

// postFrames posts the frames that wait for Worker.flush.
func (c *connection) postFrames() {
	list := c.unposted
	if len(list) == 0 {
		return
	}
	c.unposted = list[:0]
	if c.broken == nil && c.err == nil {
		c.broken = c.qp.PostSend(list...)
	}
}

// postBehind posts a work request behind the frames that wait.
func (c *connection) postBehind(r *verbs.SendWR) error {
	if c.postFrames(); c.broken != nil {
		return c.broken
	}
	return c.qp.PostSend(*r)
}
