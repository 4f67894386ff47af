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
	if b := c.Reserve(n); b != nil {
		c.Commit(h.PutFrame(b, payload))
		return
	}
	b := make([]byte, n)
	h.PutFrame(b, payload)
	c.Add(b)
}

func (env) Sent(s *message.Send, err error) {
	s.Context.(*Request).end(Info{s.Tag, s.Length}, err)
}

func (env) Received(r *message.Receive, i message.Info, err error) {
	r.Context.(*Request).end(Info{i.Tag, i.Length}, err)
}

func (env) Rejected(reason uint32) error { return Rejection(reason) }
