package tagged

import "slices"

// A Peer is a connection to another worker.
type Peer struct {
	Context any

	config   Config // of the other end
	credits  int    // eager messages that may be sent
	full     bool   // the peer's credits are all held by unmatched messages
	owed     int    // credits to return
	unpaid   int    // eager messages that arrived and whose credits were not returned
	offered  int    // announced messages that the peer has not finished
	accepted int    // announced messages that arrived and were not finished
	number   uint32
	queue    []*Send          // for credits or for finishes, oldest first
	sends    map[uint32]*Send // for their finish
	order    []uint32         // of sends
	fetching []*Receive
	kept     []*Message // announced and not matched
	err      error      // why it failed
}

// NewPeer returns a connection to a worker with a configuration, on which nothing was sent yet.
func (w *Worker) NewPeer(c Config) *Peer {
	return &Peer{config: c, credits: c.Credits, sends: map[uint32]*Send{}}
}

// Waiting returns the number of sends that have not ended.
func (p *Peer) Waiting() int { return len(p.sends) + len(p.queue) }

// Send sends a message to a peer.
func (w *Worker) Send(p *Peer, s *Send) {
	switch {
	case p.err != nil:
		w.env.Sent(s, p.err)
	case len(p.queue) > 0 || !w.begin(p, s):
		p.queue = append(p.queue, s)
	}
}

// begin sends the first frame of a message, and reports whether the peer's limits allow it.
func (w *Worker) begin(p *Peer, s *Send) bool {
	h := &w.out // a local header would escape
	*h = Header{tag: s.Tag, length: uint64(len(s.Data)), number: p.number}
	if len(s.Data) <= p.config.Eager && p.credits > 0 {
		p.credits--
		h.kind = kindEager
		if s.Sync {
			h.flags = flagSync
			p.await(s)
		}
		w.transmit(p, h, s.Data)
		if !s.Sync {
			w.env.Sent(s, nil)
		}
		return true
	}
	if p.offered >= p.config.Announced {
		return false
	}
	if len(s.Data) <= p.config.Eager && !p.full {
		return false // credits are on their way, or the peer will say that it is full
	}
	address, key, err := w.env.Expose(s)
	if err != nil {
		w.env.Sent(s, err)
		return true
	}
	p.offered++
	s.exposed = true
	h.kind, h.address, h.key = kindAnnounce, address, key
	p.await(s)
	w.transmit(p, h, nil)
	return true
}

// resume sends messages that waited for the peer's limits.
func (w *Worker) resume(p *Peer) {
	n := 0
	for n < len(p.queue) && w.begin(p, p.queue[n]) {
		n++
	}
	p.queue = slices.Delete(p.queue, 0, n)
}

// await records that a message ends with a finish.
func (p *Peer) await(s *Send) {
	p.sends[p.number] = s
	p.order = append(p.order, p.number)
	p.number++
}

// transmit sends a frame, with the credits that are owed.
func (w *Worker) transmit(p *Peer, h *Header, payload []byte) {
	h.credits = uint16(min(p.owed, 1<<16-1))
	p.owed -= int(h.credits)
	p.unpaid -= int(h.credits)
	w.env.Transmit(p, h, payload)
}

// finish tells the peer that its message was matched, and read if it was announced.
func (w *Worker) finish(p *Peer, h *Header) {
	if h.kind == kindAnnounce {
		p.accepted--
	}
	w.out = Header{kind: kindFinish, number: h.number}
	w.transmit(p, &w.out, nil)
}

// end ends a send.
func (w *Worker) end(s *Send, err error) {
	if s.exposed {
		s.exposed = false
		w.env.Conceal(s)
	}
	w.env.Sent(s, err)
}

// Fail ends a connection. The operations that wait for the peer end with the error, in the order
// in which they began. Eager messages that arrived can still be received; announced messages are
// lost. The owner has ended all reads from the peer before.
func (w *Worker) Fail(p *Peer, err error) {
	if p.err != nil {
		return
	}
	p.err = err
	for _, m := range p.kept {
		if w.matcher.Remove(&m.Message) {
			w.recycle(m)
		}
	}
	sends, queue, fetching := p.order, p.queue, p.fetching
	p.order, p.queue, p.fetching, p.kept = nil, nil, nil, nil
	for _, n := range sends {
		s := p.sends[n]
		delete(p.sends, n)
		w.end(s, err)
	}
	for _, s := range queue {
		w.env.Sent(s, err)
	}
	for _, r := range fetching {
		m := r.fetching
		r.fetching = nil
		w.env.Received(r, m.Info, err)
		w.recycle(m)
	}
}
