package msg

import (
	"math"
	"slices"

	"softrdma/internal/message"
	"softrdma/verbs"
)

// A Rendezvous is how the bytes of announced messages get to a worker.
type Rendezvous uint8

const (
	// RendezvousAuto reads where the device can: a READ needs no help of the sender's program.
	RendezvousAuto Rendezvous = iota
	// RendezvousGet reads the bytes from the sender's memory.
	RendezvousGet
	// RendezvousPut lets the sender write the bytes to the buffer of the receive. Its program must make
	// progress meanwhile. Peers know that from the address, and do not open their memory.
	RendezvousPut
)

// put reports whether peers write the bytes.
func (r Rendezvous) put(dev *verbs.Device) bool {
	return r == RendezvousPut || r == RendezvousAuto && dev.Query().MaxQPInitRdAtom == 0
}

// open gives the peer access to pieces of a request's memory on all rails. It appends where they are to
// a list. On devices that refuse, because they have closed, they have no key.
func (c *connection) open(r *Request, pieces [][]byte, access verbs.Access, list []message.Segment) (_ []message.Segment, err error) {
	if c.group == nil {
		return c.openOn(c.rail, r, pieces, access, list)
	}
	opened := false
	for _, p := range c.group.pairs {
		n := len(list)
		more, e := c.openOn(c.w.rails[p.Own], r, pieces, access, list)
		if list = more; e == nil {
			opened = true
			continue
		}
		err = e
		list = list[:n]
		for _, b := range pieces {
			if len(b) > 0 {
				list = append(list, message.Segment{Length: len(b)})
			}
		}
	}
	if opened {
		err = nil
	}
	return list, err
}

// openOn gives the peer access to pieces of a request's memory. It appends where they are to a list.
func (c *connection) openOn(on *rail, r *Request, pieces [][]byte, access verbs.Access, list []message.Segment) ([]message.Segment, error) {
	for _, b := range pieces {
		if len(b) == 0 {
			continue
		}
		m, err := on.pd.RegisterMemory(b, access)
		if err != nil {
			return list, err
		}
		r.exposed = append(r.exposed, m)
		r.worker.exposed++
		list = append(list, message.Segment{Address: m.Addr(), Key: m.RKey(), Length: len(b)})
	}
	return list, nil
}

func (e env) Expose(p *message.Peer, s *message.Send, list []message.Segment) ([]message.Segment, error) {
	c := p.Context.(*connection)
	data, _ := message.Few(s.Data, c.paths())
	return c.open(s.Context.(*Request), data, verbs.RemoteRead, list)
}

// Conceal leaves the regions to the end of the request, which follows.
func (env) Conceal(*message.Send) {}

func (e env) Admit(p *message.Peer, r *message.Receive, length int, list []message.Segment) ([]message.Segment, error) {
	q := r.Context.(*Request)
	var buffer [][]byte
	for _, b := range r.Buffer {
		b = b[:min(len(b), length)]
		length -= len(b)
		buffer = append(buffer, b)
	}
	c := p.Context.(*connection)
	open, joined := message.Few(buffer, c.paths())
	if joined {
		q.joined = open[0]
	}
	return c.open(q, open, verbs.LocalWrite|verbs.RemoteWrite, list)
}

// Fetch reads each piece of memory that is contiguous at both ends.
func (env) Fetch(p *message.Peer, r *message.Receive, from []message.Segment) {
	p.Context.(*connection).transfer(r.Context.(*Request), false, r.Buffer, from)
}

// Store writes them. Frames follow WRITEs on the same connection.
func (env) Store(p *message.Peer, s *message.Send, to []message.Segment) (ordered bool) {
	c := p.Context.(*connection)
	c.transfer(s.Context.(*Request), true, s.Data, to)
	return c.group == nil && !c.rings.sending // frames of others follow when the WRITEs are complete
}

// transfer begins to read the bytes of a message from the peer's memory, or to write them there.
func (c *connection) transfer(q *Request, write bool, own [][]byte, peers []message.Segment) {
	if c.group != nil {
		c.group.transfer(q, write, own, peers)
		return
	}
	message.Cut(own, peers, math.MaxInt, func(i, at int, b []byte) {
		q.reads++
		c.add(work{request: q, write: write, data: b, address: peers[i].Address + uint64(at), key: peers[i].Key})
	})
}

// move posts the READ or WRITE of a part of a message.
func (c *connection) move(x *work) error {
	i := slices.IndexFunc(c.reads[:], func(x work) bool { return x.request == nil })
	c.reads[i] = *x
	c.reading++
	m, err := c.rail.cache.Register(x.data, !x.write)
	if err != nil {
		return err
	}
	x.request.memory = append(x.request.memory, m)
	op := verbs.OpRead
	if x.write {
		op = verbs.OpWrite
	}
	r := verbs.SendWR{WRID: c.id(workRead, i), Op: op, Flags: verbs.Signaled,
		SGL: c.entry(m.MR.SGE(0, len(x.data))), RemoteAddr: x.address, RKey: x.key}
	return c.postBehind(&r)
}

// moved takes the completion of a part of a message.
func (c *connection) moved(i int) {
	x := c.reads[i]
	c.reads[i] = work{}
	c.reading--
	q := x.request
	if q.reads--; q.reads > 0 {
		return
	}
	if x.write {
		c.w.machine.Stored(c.peer, &q.send)
	} else {
		c.w.machine.Fetched(&q.receive, nil)
	}
}
