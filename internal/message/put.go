package message

import "fmt"

// accept tells the sender of an announced message where to write its data.
func (w *Worker) accept(p *Peer, r *Receive, m *Message) error {
	list, err := w.env.Admit(p, r, m.Info.Length, w.list[:0])
	if w.list = list; err != nil {
		return err
	}
	m.accepted = true
	h := &w.out
	*h = Header{kind: kindAccept, length: uint64(m.Info.Length), number: m.header.number}
	w.parts = w.parts[:0]
	w.place(h, list)
	w.transmit(p, h, w.parts)
	clear(w.parts)
	return nil
}

// takeAccept begins to write a message to the receiver's memory.
func (w *Worker) takeAccept(p *Peer, h *Header, payload []byte) error {
	s := p.sends[h.number]
	if s == nil || !s.offered || s.writing || s.Length == 0 {
		return fmt.Errorf("%w: accept of message %d, which is not announced", ErrFrame, h.number)
	}
	if h.length != uint64(s.Length) {
		return fmt.Errorf("%w: accept of %d bytes of a message of %d", ErrFrame, h.length, s.Length)
	}
	list, err := h.segments(w.list[:0], payload, p.rails)
	if w.list = list; err != nil {
		return err
	}
	s.writing = true
	if w.env.Store(p, s, list) {
		w.confirm(p, s)
	}
	return nil
}

// confirm tells the receiver that the data of a message is in its memory.
func (w *Worker) confirm(p *Peer, s *Send) {
	s.written = true
	w.out = Header{kind: kindWritten, number: s.number}
	w.transmit(p, &w.out, nil)
}

// Stored ends a Store. After Fail it does nothing.
func (w *Worker) Stored(p *Peer, s *Send) {
	if p.err != nil || p.sends[s.number] != s {
		return
	}
	if !s.written {
		w.confirm(p, s)
	}
	w.complete(p, s, nil)
	w.resume(p)
}

// takeWritten ends a receive whose data the peer has written.
func (w *Worker) takeWritten(p *Peer, h *Header) error {
	for i, r := range p.fetching {
		m := r.fetching
		if m.header.number != h.number || !m.accepted {
			continue
		}
		r.fetching = nil
		p.fetching = append(p.fetching[:i], p.fetching[i+1:]...)
		if m.header.kind == kindAnnounce {
			p.accepted--
		}
		w.received(r, m, nil)
		return nil
	}
	return fmt.Errorf("%w: message %d was written, which was not accepted", ErrFrame, h.number)
}
