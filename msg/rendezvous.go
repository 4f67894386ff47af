package msg

import (
	"math"

	"softrdma/internal/carrier"
	"softrdma/internal/message"
	"softrdma/verbs"
)

// A Rendezvous is how the bytes of announced messages get to a worker.
type Rendezvous uint8

const (
	// RendezvousAuto reads where the device can: a READ needs no help of the sender's program. On a path of
	// more than 5 ms it lets a sender write whose package makes progress (ProgressPackage), because
	// WRITEs fill such a path better than READs where packets are lost.
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

// Writes lets a peer write on a long path.
func (e env) Writes(p *message.Peer) bool {
	c := p.Context.(*connection)
	return e.w.config.Rendezvous == RendezvousAuto && c.group == nil && p.Progresses() && c.Long()
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
	q.via = c
	message.Cut(own, peers, math.MaxInt, func(i, at int, b []byte) {
		q.reads++
		c.Move(carrier.Move{By: (*mover)(q), Write: write, Data: b, Address: peers[i].Address + uint64(at), Key: peers[i].Key})
	})
}

// A mover is a request whose message is read or written.
type mover Request

// Local implements carrier.Mover, as Moved does.
func (q *mover) Local(on *carrier.Conn, m carrier.Move) (verbs.SGE, error) {
	r, err := q.worker.railOn(on.Rail).cache.Register(m.Data, !m.Write)
	if err != nil {
		return verbs.SGE{}, err
	}
	q.memory = append(q.memory, r)
	return r.MR.SGE(0, len(m.Data)), nil
}

// Moved takes the completion of a part of a message. After an error the connection ends the request.
func (q *mover) Moved(_ *carrier.Conn, m carrier.Move, err error) {
	if err != nil {
		return
	}
	if q.reads--; q.reads > 0 {
		return
	}
	if m.Write {
		q.worker.machine.Stored(q.via.peer, &q.send)
	} else {
		q.worker.machine.Fetched(&q.receive, nil)
	}
}
