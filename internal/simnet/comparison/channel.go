package comparison

import (
	"errors"
	"fmt"
	"time"

	"softrdma/internal/adapter"
	"softrdma/internal/link"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/simnet/rig"
)

// A connection is a channel of RDMA: a queue pair at each end.
type connection struct {
	from, to *end
	op       queue.Op
	size     int
	depth    int
	pending  int // messages that have not been acknowledged
}

// An end is one end of a connection.
type end struct {
	*host
	cq *adapter.CQ
	qp *adapter.QP
}

func (h *host) end(depth int) (*end, error) {
	e := &end{host: h}
	var err error
	if e.cq, err = h.dev.CreateCQ(4*depth, nil); err != nil {
		return nil, err
	}
	e.qp, err = h.pd.CreateQP(&adapter.QPConfig{
		Type: qp.RC, SendCQ: e.cq, RecvCQ: e.cq, SendDepth: depth, SendSGE: 1, RecvDepth: depth, RecvSGE: 1,
	})
	return e, err
}

// list is the memory of one poll.
var list [64]queue.CQE

// poll returns the number of completions at an end.
func (e *end) poll() (n int, err error) {
	n = rig.Poll(e.cq, list[:])
	for _, c := range list[:n] {
		if c.Status != queue.Success {
			err = fmt.Errorf("%+v", c)
		}
	}
	return n, err
}

func (e *end) receive(size int) error {
	return rig.PostRecv(e.qp.Recv, 0, memory.SGE{Addr: regionAt, Length: uint32(size), LKey: e.region.Key})
}

func (c *connection) send() (bool, error) {
	if c.pending == c.depth {
		if _, err := c.acknowledged(); c.pending == c.depth {
			return false, err
		}
	}
	c.pending++
	s := rig.Send{Op: c.op, Flags: queue.Signaled, SGEs: []memory.SGE{{Addr: regionAt, Length: uint32(c.size), LKey: c.from.region.Key}}}
	if c.op == queue.Write {
		s.Addr, s.RKey = regionAt, c.to.region.Key
	}
	return true, rig.PostSend(c.from.qp, s)
}

// acknowledged returns the number of messages that have been acknowledged since the last call.
func (c *connection) acknowledged() (int, error) {
	n, err := c.from.poll()
	c.pending -= n
	return n, err
}

func (c *connection) poll() (int, error) {
	if c.op == queue.Write {
		return c.acknowledged()
	}
	n, err := c.to.poll()
	for range n {
		err = errors.Join(err, c.to.receive(c.size))
	}
	return n, err
}

// A bytestream is a channel of TCP.
type bytestream struct {
	from, to     link.Stream
	size         int
	unsent, read int // bytes
}

// content is what messages contain, and memory for what arrives.
var content, arrival [Message]byte

func (c *bytestream) send() (bool, error) {
	if c.unsent >= sendBuffer {
		return false, nil
	}
	c.unsent += c.size
	return true, c.flush()
}

// flush writes as much as the send buffer has room for.
func (c *bytestream) flush() error {
	for c.unsent > 0 {
		n, err := c.from.Write([][]byte{content[:min(c.unsent, len(content))]})
		c.unsent -= n
		if n == 0 || err != nil {
			return unlessBlocked(err)
		}
	}
	return nil
}

func (c *bytestream) poll() (done int, err error) {
	if err := c.flush(); err != nil {
		return 0, err
	}
	for {
		n, err := c.to.Read([][]byte{arrival[:]})
		c.read += n
		if n == 0 || err != nil {
			done = c.read / c.size
			c.read -= done * c.size
			return done, unlessBlocked(err)
		}
	}
}

func unlessBlocked(err error) error {
	if errors.Is(err, link.ErrWouldBlock) {
		return nil
	}
	return err
}

// connectTCP connects two hosts by a stream.
func (w *world) connectTCP(from, to *host) (a, b link.Stream, err error) {
	w.listens++
	l, err := to.tcp.Listen(w.listens, 1, to)
	if err != nil {
		return nil, nil, err
	}
	if a, err = from.tcp.Dial(0, l.Addr(), 0, from); err != nil {
		return nil, nil, err
	}
	err = w.net.Run(func() bool {
		if b == nil {
			b, err = l.Accept(to)
		}
		return b != nil && a.Connected() == nil
	}, time.Second)
	return a, b, errors.Join(err, l.Close())
}
