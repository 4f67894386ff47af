package msg

import "softrdma/internal/message"

// An env carries out what the worker's machine decides.
type env struct{ w *Worker }

func (e env) Transmit(p *message.Peer, h *message.Header, payload [][]byte) {
	c := p.Context.(*connection)
	if c.group != nil {
		c.group.rails.Send(h, payload)
		return
	}
	if len(c.backlog) > 0 || len(c.vacant) == 0 {
		b := make([]byte, message.HeaderLen)
		h.Put(b)
		for _, x := range payload {
			b = append(b, x...)
		}
		c.add(work{frame: b})
		return
	}
	i := c.slot()
	b := c.out.Bytes(i)
	h.Put(b)
	n := message.HeaderLen
	for _, x := range payload {
		n += copy(b[n:], x)
	}
	c.send(i, n)
}

func (env) Sent(s *message.Send, err error) {
	s.Context.(*Request).end(Info{s.Tag, s.Length}, err)
}

func (env) Received(r *message.Receive, i message.Info, err error) {
	r.Context.(*Request).end(Info{i.Tag, i.Length}, err)
}
