package message

import "fmt"

// An Active is an active message that arrived.
type Active struct {
	ID      uint16
	Header  []byte // in the frame
	Data    []byte // in the frame; nil if the message was announced
	Length  int    // of the data
	From    *Peer
	Context any

	frame    Header
	segments []Segment
	reason   uint32 // why it is not wanted, or 0
	taken    bool   // received or rejected
	released bool   // the owner no longer uses it
	fetching bool
}

// Announced reports whether the data is in the sender's memory.
func (a *Active) Announced() bool { return a.frame.kind == kindActiveAnnounce }

// Taken reports whether the data was received.
func (a *Active) Taken() bool { return a.taken }

// beginActive implements begin for active messages.
func (w *Worker) beginActive(p *Peer, s *Send) bool {
	if p.active.credits == 0 {
		return false
	}
	h := &w.out
	*h = Header{kind: kindActive, tag: name(uint16(s.Tag), len(s.Header)), length: uint64(s.Length), number: p.number}
	if len(s.Header)+s.Length <= p.config.Eager && (!s.Announce || s.Length == 0) {
		p.active.credits--
		w.parts = append(append(w.parts[:0], s.Header), s.Data...)
		w.transmit(p, h, w.parts)
		clear(w.parts)
		w.env.Sent(s, nil)
		return true
	}
	h.kind = kindActiveAnnounce
	if w.announce(p, s, h) {
		p.active.credits--
	}
	return true
}

// takeActive handles the frame of an active message.
func (w *Worker) takeActive(p *Peer, h *Header, payload []byte) error {
	n := h.header()
	if n > MaxHeader || n > len(payload) {
		return fmt.Errorf("%w: header of %d bytes in %d, expected at most %d", ErrFrame, n, len(payload), MaxHeader)
	}
	a := &w.arriving
	*a = Active{ID: h.id(), Header: payload[:n:n], Length: int(h.length), From: p, frame: *h}
	if h.kind == kindActive {
		if a.Data = payload[n:]; uint64(len(a.Data)) != h.length || len(payload) > w.config.Eager {
			return fmt.Errorf("%w: active message of %d bytes in %d, expected at most %d", ErrFrame, h.length, len(payload), w.config.Eager)
		}
	} else {
		var err error
		if a.segments, err = h.segments(nil, payload[n:], p.announcers(w)); err != nil {
			return err
		}
	}
	if p.active.unpaid++; p.active.unpaid > w.config.Active {
		return fmt.Errorf("%w: more than %d active messages", ErrLimit, w.config.Active)
	}
	if !w.env.Active(a) {
		if a.Announced() {
			w.refuse(p, h, 0)
		}
		p.active.owed++
	}
	w.repay(p)
	return nil
}

// repay returns credits of active messages: when half of them are owed, and before a peer
// without credits would have to wait.
func (w *Worker) repay(p *Peer) {
	if n := p.active.owed; n > 0 && (n*2 >= w.config.Active || p.active.unpaid == w.config.Active) {
		w.out = Header{kind: kindCredit}
		w.transmit(p, &w.out, nil)
	}
}

// ReceiveActive receives the data of an active message that the owner has not released. It is
// called at most once per message.
func (w *Worker) ReceiveActive(r *Receive, a *Active) {
	a.taken = true
	info := Info{Tag: uint64(a.ID), Length: a.Length, From: a.From}
	if !a.Announced() {
		spread(r.Buffer, a.Data)
		var err error
		if a.Length > r.Length {
			err = ErrTruncated
		}
		w.env.Received(r, info, err)
		return
	}
	m := w.fresh()
	m.Info, m.header, m.active = info, a.frame, a
	m.segments = append(m.segments[:0], a.segments...)
	a.fetching = true
	w.deliver(r, m, nil)
}

// Reject sets a reason, not 0, for refusing announced data. The sender learns of it after
// ReleaseActive, unless the data was received.
func (a *Active) Reject(reason uint32) { a.reason = reason }

// ReleaseActive says that the owner no longer uses the header and the data. Announced data
// that was not received is refused.
func (w *Worker) ReleaseActive(a *Active) {
	if a.released {
		return
	}
	a.released = true
	switch {
	case !a.Announced() || a.taken || a.From.err != nil:
	case a.reason != 0:
		w.refuse(a.From, &a.frame, a.reason)
	default:
		w.finish(a.From, &a.frame)
	}
	a.taken = true
	if !a.fetching {
		w.over(a)
	}
}

// over ends an active message.
func (w *Worker) over(a *Active) {
	p := a.From
	w.env.Over(a)
	if p.err == nil {
		p.active.owed++
		w.repay(p)
	}
}
