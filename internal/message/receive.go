package message

import (
	"fmt"
	"slices"
)

// Receive posts a receive, which may end at once.
func (w *Worker) Receive(r *Receive) {
	r.Receive.Owner = r
	if x := w.matcher.Post(&r.Receive); x != nil {
		m := x.Owner.(*Message)
		drop(m)
		w.give(r, m)
	}
}

// Cancel ends a receive that has no message yet, and reports whether it did.
func (w *Worker) Cancel(r *Receive) bool {
	if !w.matcher.Cancel(&r.Receive) {
		return false
	}
	w.env.Received(r, Info{}, ErrCanceled)
	return true
}

// CancelAll ends all receives that have no message yet.
func (w *Worker) CancelAll(err error) {
	for _, x := range w.matcher.Posted() {
		w.matcher.Cancel(x)
		w.env.Received(x.Owner.(*Receive), Info{}, err)
	}
}

// Probe describes the oldest message that a receive with this tag and mask would match, and
// reports whether there is one.
func (w *Worker) Probe(tag, mask uint64) (Info, bool) {
	if x := w.matcher.Probe(tag, mask); x != nil {
		return x.Owner.(*Message).Info, true
	}
	return Info{}, false
}

// Claim removes the message that Probe describes, for ReceiveMessage. It returns nil if there
// is none.
func (w *Worker) Claim(tag, mask uint64) *Message {
	if x := w.matcher.Take(tag, mask); x != nil {
		return x.Owner.(*Message)
	}
	return nil
}

// ReceiveMessage receives a claimed message, once.
func (w *Worker) ReceiveMessage(r *Receive, m *Message) {
	drop(m)
	w.give(r, m)
}

// drop removes a message from the announced messages of its peer.
func drop(m *Message) {
	if p := m.Info.From; m.header.kind == kindAnnounce {
		if i := slices.Index(p.kept, m); i >= 0 {
			p.kept = slices.Delete(p.kept, i, i+1)
		}
	}
}

// Arrive handles a frame of a peer, or several that were joined. An error means that the peer violates the
// protocol: the owner ends the connection and calls Fail.
func (w *Worker) Arrive(p *Peer, frame []byte) error {
	for more := true; more; {
		h := &w.in
		if err := h.parse(frame); err != nil {
			return err
		}
		payload := frame[HeaderLen:]
		if more = h.joins() && len(payload) > 0; more {
			frame, payload = payload, nil
		}
		if p.err != nil {
			return nil
		}
		if err := w.arrive(p, h, payload); err != nil {
			return err
		}
	}
	return nil
}

func (w *Worker) arrive(p *Peer, h *Header, payload []byte) error {
	if p.credits += int(h.credits); p.credits > p.config.Credits {
		return fmt.Errorf("%w: %d credits, expected at most %d", ErrFrame, p.credits, p.config.Credits)
	}
	if p.active.credits += int(h.active); p.active.credits > p.config.Active {
		return fmt.Errorf("%w: %d credits of active messages, expected at most %d", ErrFrame, p.active.credits, p.config.Active)
	}
	if h.credits > 0 {
		p.full = false
	}
	if h.flags&flagFull != 0 {
		p.full = true
	}
	if err := w.take(p, h, payload); err != nil {
		return err
	}
	w.resume(p)
	return nil
}

func (w *Worker) take(p *Peer, h *Header, payload []byte) error {
	switch h.kind {
	case kindEager:
		if err := w.takeEager(p, h, payload); err != nil {
			return err
		}
		w.refill(p)
	case kindBatch:
		return w.takeBatch(p, h, payload)
	case kindAnnounce:
		list, err := h.segments(w.list[:0], payload, p.announcers(w))
		if w.list = list; err != nil {
			return err
		}
		if p.accepted++; p.accepted > w.config.Announced {
			return fmt.Errorf("%w: more than %d announced messages", ErrLimit, w.config.Announced)
		}
		w.message(p, h, nil)
	case kindActive, kindActiveAnnounce:
		return w.takeActive(p, h, payload)
	case kindStream:
		return w.takeStream(p, h, payload)
	case kindAccept:
		return w.takeAccept(p, h, payload)
	default:
		if len(payload) > 0 {
			return fmt.Errorf("%w: %d bytes after a frame %q", ErrFrame, len(payload), h.kind)
		}
	}
	switch h.kind {
	case kindWindow:
		return w.takeWindow(p, h)
	case kindFinish:
		return w.finished(p, h)
	case kindWritten:
		return w.takeWritten(p, h)
	}
	return nil
}

// takeEager handles an eager message.
func (w *Worker) takeEager(p *Peer, h *Header, payload []byte) error {
	if h.length != uint64(len(payload)) || h.length > uint64(w.config.Eager) {
		return fmt.Errorf("%w: message of %d bytes in %d, expected at most %d", ErrFrame, h.length, len(payload), w.config.Eager)
	}
	if p.unpaid++; p.unpaid > w.config.Credits {
		return fmt.Errorf("%w: more than %d eager messages", ErrLimit, w.config.Credits)
	}
	w.message(p, h, payload)
	return nil
}

// finished ends a send that the peer has finished.
func (w *Worker) finished(p *Peer, h *Header) error {
	s := p.sends[h.number]
	if s == nil || s.writing {
		return fmt.Errorf("%w: finish of message %d, which does not wait for one", ErrFrame, h.number)
	}
	var err error
	switch reason := uint32(h.tag); {
	case h.flags&flagRefused == 0:
	case reason != 0:
		err = w.env.Rejected(reason)
	default:
		err = fmt.Errorf("%w: ID %d", ErrHandler, s.Tag)
	}
	w.complete(p, s, err)
	return nil
}

// complete ends a send that waited for its finish or its data.
func (w *Worker) complete(p *Peer, s *Send, err error) {
	delete(p.sends, s.number)
	i := slices.Index(p.order, s.number)
	p.order = slices.Delete(p.order, i, i+1)
	if s.offered && s.Class == Tagged {
		p.offered--
	}
	w.end(s, err)
}

// refill returns credits after eager messages have arrived. It always answers a peer that has
// none left; if unmatched messages hold all credits, it reports that.
func (w *Worker) refill(p *Peer) {
	if p.unpaid < w.config.Credits || p.owed > 0 {
		w.repayEager(p, p.unpaid == w.config.Credits)
		return
	}
	w.out = Header{kind: kindCredit, flags: flagFull}
	w.transmit(p, &w.out, nil)
}

// repayEager returns credits of eager messages: when half of them are owed, or at once.
func (w *Worker) repayEager(p *Peer, now bool) {
	if p.owed > 0 && p.err == nil && (now || p.owed*2 >= w.config.Credits) {
		w.out = Header{kind: kindCredit}
		w.transmit(p, &w.out, nil)
	}
}

// message handles a message that arrived.
func (w *Worker) message(p *Peer, h *Header, data []byte) {
	m := w.fresh()
	m.Info, m.header, m.Tag = Info{Tag: h.tag, Length: int(h.length), From: p}, *h, h.tag
	if h.kind == kindAnnounce {
		m.segments = append(m.segments[:0], w.list...)
	}
	if x := w.matcher.Arrive(&m.Message); x != nil {
		w.deliver(x.Owner.(*Receive), m, data)
		return
	}
	m.data = append(m.data[:0], data...)
	if h.kind == kindAnnounce {
		p.kept = append(p.kept, m)
	}
}

// maxSpare bounds the messages that a worker keeps for reuse.
const maxSpare = 256

// fresh returns an unused message.
func (w *Worker) fresh() *Message {
	if n := len(w.spare); n > 0 {
		m := w.spare[n-1]
		w.spare = w.spare[:n-1]
		return m
	}
	m := &Message{}
	m.Message.Owner = m
	return m
}

// recycle takes a message back that has ended.
func (w *Worker) recycle(m *Message) {
	if len(w.spare) < maxSpare {
		m.Info.From, m.active, m.accepted = nil, nil, false
		w.spare = append(w.spare, m)
	}
}

// give passes a kept message to a receive.
func (w *Worker) give(r *Receive, m *Message) {
	p := m.Info.From
	w.deliver(r, m, m.data)
	w.repayEager(p, false)
}

// deliver passes a message to the matching receive.
func (w *Worker) deliver(r *Receive, m *Message, data []byte) {
	p, h := m.Info.From, &m.header
	var err error
	switch long := m.Info.Length > r.Length; {
	case h.kind == kindEager:
		if spread(r.Buffer, data); long {
			err = ErrTruncated
		}
		w.matched(p, h)
	case p.err != nil:
		err = p.err
	case long:
		err = ErrTruncated
		w.finish(p, h)
	case m.Info.Length == 0:
		w.finish(p, h)
	default:
		r.fetching = m
		p.fetching = append(p.fetching, r)
		if w.config.Put || w.env.Writes(p) {
			err = w.accept(p, r, m)
		} else {
			w.env.Fetch(p, r, m.segments)
		}
		if err == nil {
			return
		}
		r.fetching = nil
		p.fetching = p.fetching[:len(p.fetching)-1]
		w.finish(p, h)
	}
	w.received(r, m, err)
}

// received ends a receive and the message that it was matched with.
func (w *Worker) received(r *Receive, m *Message, err error) {
	info, a := m.Info, m.active
	w.recycle(m)
	w.env.Received(r, info, err)
	if a == nil {
		return
	}
	if a.fetching = false; a.released {
		w.over(a)
	}
}

// matched owes the peer the credit of an eager message, and finishes a synchronous one.
func (w *Worker) matched(p *Peer, h *Header) {
	if p.err != nil {
		return
	}
	if p.owed++; h.flags&flagSync != 0 {
		w.finish(p, h)
	}
}

// Fetched ends a Fetch. An error is followed by Fail. After Fail it does nothing.
func (w *Worker) Fetched(r *Receive, err error) {
	m := r.fetching
	if m == nil {
		return
	}
	p := m.Info.From
	r.fetching = nil
	i := slices.Index(p.fetching, r)
	p.fetching = slices.Delete(p.fetching, i, i+1)
	if err == nil {
		w.finish(p, &m.header)
	}
	w.received(r, m, err)
}
