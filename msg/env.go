package msg

import (
	"slices"

	"softrdma/internal/message"
	"softrdma/verbs"
)

// An env carries out what the worker's machine decides.
type env struct{ w *Worker }

func (e env) Transmit(p *message.Peer, h *message.Header, payload [][]byte) {
	c := p.Context.(*connection)
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
	b := c.out.bytes(i)
	h.Put(b)
	n := message.HeaderLen
	for _, x := range payload {
		n += copy(b[n:], x)
	}
	c.send(i, n)
}

func (e env) Expose(s *message.Send, list []message.Segment) ([]message.Segment, error) {
	r := s.Context.(*Request)
	data := s.Data
	if n := len(data); n > message.MaxSegments {
		empty := func(b []byte) bool { return len(b) == 0 }
		if data = slices.DeleteFunc(data, empty); len(data) > message.MaxSegments {
			data = [][]byte{slices.Concat(data...)}
		}
	}
	for _, b := range data {
		if len(b) == 0 {
			continue
		}
		m, err := e.w.pd.RegisterMemory(b, verbs.RemoteRead)
		if err != nil {
			return list, err
		}
		r.exposed = append(r.exposed, m)
		list = append(list, message.Segment{Address: m.Addr(), Key: m.RKey(), Length: len(b)})
	}
	return list, nil
}

// Conceal leaves the regions to the end of the request, which follows.
func (env) Conceal(*message.Send) {}

// Fetch reads each piece of memory that is contiguous at both ends.
func (env) Fetch(p *message.Peer, r *message.Receive, from []message.Segment) {
	c, q := p.Context.(*connection), r.Context.(*Request)
	to := r.Buffer
	var piece []byte
	for _, s := range from {
		for s.Length > 0 {
			for len(piece) == 0 {
				piece, to = to[0], to[1:]
			}
			n := min(s.Length, len(piece))
			c.add(work{read: r, to: piece[:n], address: s.Address, key: s.Key})
			q.reads++
			piece = piece[n:]
			s.Address += uint64(n)
			s.Length -= n
		}
	}
}

func (env) Sent(s *message.Send, err error) {
	s.Context.(*Request).end(Info{s.Tag, s.Length}, err)
}

func (env) Received(r *message.Receive, i message.Info, err error) {
	r.Context.(*Request).end(Info{i.Tag, i.Length}, err)
}
