package message

import "slices"

// A Peer is a connection to another worker.
type Peer struct {
	Context any

	config   Config // of the other end
	rails    int    // over which data is read and written
	credits  int    // eager messages that may be sent
	full     bool   // unmatched messages hold all of the peer's credits
	owed     int    // credits to return
	unpaid   int    // received eager messages whose credits were not returned
	offered  int    // announced messages that the peer has not finished
	accepted int    // received announced messages that are not finished
	active   struct {
		credits int // active messages that may be sent
		owed    int // credits to return
		unpaid  int // received active messages whose credits were not returned
	}
	window   int // bytes of the stream that may be sent
	in       stream
	number   uint32
	queues   [classes][]*Send // waiting for credits or for finishes, oldest first
	begun    Mark
	sends    map[uint32]*Send // waiting for their finish
	order    []uint32         // of sends
	fetching []*Receive
	kept     []*Message // announced and not matched
	err      error      // why it failed
}

// NewPeer returns a new connection of a number of rails to a worker with a configuration.
func (w *Worker) NewPeer(c Config, rails int) *Peer {
	p := &Peer{config: c, rails: rails, credits: c.Credits, window: c.Stream, sends: map[uint32]*Send{}}
	p.active.credits = c.Active
	return p
}

// announcers returns for how many rails the peer lists its memory in announcements.
func (p *Peer) announcers(w *Worker) int {
	if w.config.Put {
		return 1 // without rails: nothing is read
	}
	return p.rails
}

// Progresses reports whether the other end makes progress without its program.
func (p *Peer) Progresses() bool { return p.config.Progress }

// Waiting returns the number of sends that have not ended.
func (p *Peer) Waiting() int {
	n := len(p.sends)
	for _, q := range p.queues {
		n += len(q)
	}
	return n
}

// A Mark is a place in the order of a peer's sends.
type Mark [classes]uint64

// Mark returns the place after all started sends.
func (p *Peer) Mark() (m Mark) {
	for i, q := range p.queues {
		m[i] = p.begun[i] + uint64(len(q))
	}
	return m
}

// Passed reports whether the frames of all sends before a place were transmitted. The peer may
// still have to read announced data.
func (p *Peer) Passed(m Mark) bool {
	for i, n := range p.begun {
		if n < m[i] {
			return false
		}
	}
	return true
}

// Send sends a message to a peer.
func (w *Worker) Send(p *Peer, s *Send) {
	q := &p.queues[s.Class]
	switch {
	case p.err != nil:
		w.env.Sent(s, p.err)
	case len(*q) > 0 || !w.begin(p, s):
		*q = append(*q, s)
	default:
		p.begun[s.Class]++
	}
}

// begin sends the first frame of a message, and reports whether the peer's limits allow it.
func (w *Worker) begin(p *Peer, s *Send) bool {
	switch s.Class {
	case Actives:
		return w.beginActive(p, s)
	case Stream:
		return w.beginStream(p, s)
	}
	h := &w.out // a local header would escape
	*h = Header{tag: s.Tag, length: uint64(s.Length), number: p.number}
	if s.Length <= p.config.Eager && p.credits > 0 {
		p.credits--
		h.kind = kindEager
		if s.Sync {
			h.flags = flagSync
			s.offered, s.writing = false, false
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
	if s.Length <= p.config.Eager && !p.full {
		return false // credits are in flight, or the peer will report that it is full
	}
	h.kind = kindAnnounce
	if w.announce(p, s, h) {
		p.offered++
	}
	return true
}

// announce sends the frame of an announced message. It reports whether it did; otherwise the
// send has ended.
func (w *Worker) announce(p *Peer, s *Send, h *Header) bool {
	w.list = w.list[:0]
	if !p.config.Put {
		var err error
		if w.list, err = w.env.Expose(p, s, w.list); err != nil {
			w.env.Sent(s, err)
			return false
		}
		s.exposed = true
	}
	s.offered, s.writing, s.written = true, false, false
	w.parts = append(w.parts[:0], s.Header)
	w.place(h, w.list)
	p.await(s)
	w.transmit(p, h, w.parts)
	clear(w.parts)
	return true
}

// place adds pieces of memory to a frame.
func (w *Worker) place(h *Header, list []Segment) {
	switch len(list) {
	case 0:
	case 1:
		h.address, h.key = list[0].Address, list[0].Key
	default:
		h.flags |= flagSegments
		w.tail = appendSegments(w.tail[:0], list)
		w.parts = append(w.parts, w.tail)
	}
}

// resume sends messages that waited for the peer's limits.
func (w *Worker) resume(p *Peer) {
	for i := range p.queues {
		q := &p.queues[i]
		n := 0
		for n < len(*q) {
			k := w.beginFirst(p, Class(i), (*q)[n:])
			if k == 0 {
				break
			}
			n += k
			p.begun[i] += uint64(k)
		}
		*q = slices.Delete(*q, 0, n)
	}
}

// beginFirst begins the first messages of a class's queue: one, or several that fit in one
// frame. It returns how many: 0 if the first has to wait.
func (w *Worker) beginFirst(p *Peer, c Class, queue []*Send) int {
	if c == Tagged {
		if n := w.sendBatch(p, queue); n > 0 {
			return n
		}
	}
	if w.begin(p, queue[0]) {
		return 1
	}
	return 0
}

// await records that a message ends with a finish.
func (p *Peer) await(s *Send) {
	s.number = p.number
	p.sends[p.number] = s
	p.order = append(p.order, p.number)
	p.number++
}

// finish tells the peer that its message was matched, and read if it was announced.
func (w *Worker) finish(p *Peer, h *Header) {
	if h.kind == kindAnnounce {
		p.accepted--
	}
	w.out = Header{kind: kindFinish, number: h.number}
	w.transmit(p, &w.out, nil)
}

// refuse tells the peer that the announced data of its active message is refused. The reason
// is 0 if there is no handler.
func (w *Worker) refuse(p *Peer, h *Header, reason uint32) {
	w.out = Header{kind: kindFinish, flags: flagRefused, tag: uint64(reason), number: h.number}
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

// Fail ends a connection. The operations that wait for the peer end with the error, in the
// order in which they began. Received eager messages can still be matched; announced messages
// are lost. The owner must have ended all reads from the peer.
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
	sends, queues, fetching := p.order, p.queues, p.fetching
	p.order, p.queues, p.fetching, p.kept = nil, [classes][]*Send{}, nil, nil
	for _, n := range sends {
		s := p.sends[n]
		delete(p.sends, n)
		w.end(s, err)
	}
	for _, q := range queues {
		for _, s := range q {
			w.env.Sent(s, err)
		}
	}
	for _, r := range fetching {
		m := r.fetching
		r.fetching = nil
		w.received(r, m, err)
	}
	w.failStream(p, err)
}
