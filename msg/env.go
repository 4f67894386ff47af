package msg

import "softrdma/internal/message"

// An env executes the decisions of the worker's protocol machine.
type env struct{ w *Worker }

func (e env) Transmit(p *message.Peer, h *message.Header, payload [][]byte) {
	c := p.Context.(*connection)
	if c.group != nil {
		c.group.rails.Send(h, payload)
		return
	}
	n := message.Size(payload)
	if c.rings.entered && len(c.backlog) == 0 {
		if b := c.rings.writer.Reserve(n); b != nil {
			c.commitRing(h.PutFrame(b, payload))
			return
		}
	}
	if c.rings.sending || len(c.backlog) > 0 || len(c.vacant) == 0 {
		b := make([]byte, n)
		h.PutFrame(b, payload)
		c.add(work{frame: b})
		return
	}
	i := c.slot()
	c.send(i, h.PutFrame(c.out.Bytes(i), payload))
}

func (env) Sent(s *message.Send, err error) {
	s.Context.(*Request).end(Info{s.Tag, s.Length}, err)
}

func (env) Received(r *message.Receive, i message.Info, err error) {
	r.Context.(*Request).end(Info{i.Tag, i.Length}, err)
}

func (env) Rejected(reason uint32) error { return Rejection(reason) }
