package dcb

// A Pool has unused frames. The nodes of a network can share one.
type Pool struct {
	free *Frame
	used int
}

// slab is the number of frames that a pool allocates at once.
const slab = 64

// Frame returns an empty frame that nothing else uses.
func (p *Pool) Frame() *Frame {
	if p.free == nil {
		all := make([]Frame, slab)
		for i := range all {
			all[i].next, p.free = p.free, &all[i]
		}
	}
	f := p.free
	p.free, f.next = f.next, nil
	p.used++
	return f
}

// Put takes a frame back. It keeps Content and the memory of Data for the next one.
func (p *Pool) Put(f *Frame) {
	*f = Frame{Data: f.Data[:0], Content: f.Content, next: p.free}
	p.free = f
	p.used--
}

// Used returns the number of frames that are in use. It is negative for a pool that has got more
// frames of other pools than it has lent.
func (p *Pool) Used() int { return p.used }

// Give gives up to n unused frames to another pool, which counts them as its own.
func (p *Pool) Give(to *Pool, n int) {
	for ; n > 0 && p.free != nil; n-- {
		f := p.free
		p.free, f.next, to.free = f.next, to.free, f
		p.used++
		to.used--
	}
}

// Duplicate returns a frame like another one, which is in no node.
func (p *Pool) Duplicate(f *Frame) *Frame {
	c := p.Frame()
	data, content := append(c.Data[:0], f.Data...), c.Content
	*c = *f
	c.Data, c.Content, c.Telemetry, c.whole, c.copies, c.next = data, content, nil, nil, 0, nil
	return c
}

// Copy returns a copy of a frame that takes no room of its own in the buffer of the node. The frame
// itself stays where it is until all copies have left (see Leave).
func (p *Pool) Copy(f *Frame) *Frame {
	c := p.Duplicate(f)
	c.whole = f
	f.copies++
	return c
}

// Leave reports that a frame leaves a node. It returns the frame whose room in the buffer is free
// now: f, or for the last copy the frame of which it is one, which the caller returns to the pool;
// nil if there are more copies.
func (p *Pool) Leave(f *Frame) *Frame {
	whole := f.whole
	if whole == nil {
		return f
	}
	f.whole = nil
	if whole.copies--; whole.copies > 0 {
		return nil
	}
	return whole
}

// Hold keeps a frame of which copies are made until Release.
func (f *Frame) Hold() { f.copies++ }

// Release ends Hold. It reports whether all copies have left: the frame is the caller's then.
func (f *Frame) Release() bool {
	f.copies--
	return f.copies == 0
}
