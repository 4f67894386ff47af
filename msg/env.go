package msg

import (
	"softrdma/internal/tagged"
	"softrdma/verbs"
)

// An env carries out what the worker's machine decides.
type env struct{ w *Worker }

func (e env) Transmit(p *tagged.Peer, h *tagged.Header, payload []byte) {
	c := p.Context.(*connection)
	if len(c.backlog) > 0 || len(c.free) == 0 {
		b := make([]byte, tagged.HeaderLen, tagged.HeaderLen+len(payload))
		h.Put(b)
		c.add(work{frame: append(b, payload...)})
		return
	}
	i := c.slot()
	b := c.out.bytes(i)
	h.Put(b)
	n := tagged.HeaderLen + copy(b[tagged.HeaderLen:], payload)
	if c.broken == nil {
		c.broken = c.send(i, n)
	}
	if c.broken != nil {
		e.w.dirty = append(e.w.dirty, c) // flush ends the connection: the machine may not be called here
	}
}

func (e env) Expose(s *tagged.Send) (uint64, uint32, error) {
	if len(s.Data) == 0 {
		return 0, 0, nil
	}
	m, err := e.w.pd.RegisterMemory(s.Data, verbs.RemoteRead)
	if err != nil {
		return 0, 0, err
	}
	s.Context.(*Request).region = m
	return m.Addr(), m.RKey(), nil
}

// Conceal leaves the region to the end of the request, which follows.
func (env) Conceal(*tagged.Send) {}

func (env) Fetch(p *tagged.Peer, r *tagged.Receive, address uint64, key uint32, n int) {
	p.Context.(*connection).add(work{read: r, address: address, key: key, n: n})
}

func (env) Sent(s *tagged.Send, err error) {
	s.Context.(*Request).end(Info{s.Tag, len(s.Data)}, err)
}

func (env) Received(r *tagged.Receive, i tagged.Info, err error) {
	r.Context.(*Request).end(Info{i.Tag, i.Length}, err)
}
