//go:build linux

package uverbs

import (
	"encoding/binary"
	"fmt"
	"syscall"

	"softrdma/internal/adapter"
)

// minCQE is how deep a completion queue of a program with libibverbs is at
// least. Programs that wait for events may leave completions of theirs behind,
// and count on the slack that hardware has.
const minCQE = 60

// cq is a completion queue whose ring the program polls by itself.
type cq struct {
	x       *context
	a       *adapter.CQ
	ring    *shared
	depth   int
	handle  uint32
	channel *channel

	async, comp reports
	told        destroyCQResp // at the end
}

// completed is called with the lane held, for an event of the queue.
func (q *cq) completed() {
	var b [8]byte
	binary.NativeEndian.PutUint64(b[:], q.comp.user)
	q.comp.tell(b[:])
}

func (q *cq) asyncEvent(e adapter.AsyncEvent) { q.async.asyncEvent(e) }
func (q *cq) rank() int                       { return rankQueue }

func (q *cq) destroy() error {
	if err := q.a.Destroy(); err != nil {
		return err
	}
	q.told = destroyCQResp{CompEvents: q.comp.end(), AsyncEvents: q.async.end()}
	if q.channel != nil {
		q.channel.drop()
	}
	q.x.release(q.ring)
	return nil
}

// release gives a ring up that the device no longer uses.
func (x *context) release(s *shared) {
	if s != nil {
		x.maps.drop(s)
		s.close()
	}
}

// newCQ makes a completion queue as both commands want it.
func (x *context) newCQ(c *command, q *exCreateCQ) (*cq, mmInfo, error) {
	if q.CQE == 0 || q.CQE > maxCQE || q.CompVector != 0 {
		return nil, mmInfo{}, fmt.Errorf("%d entries, vector %d: %w", q.CQE, q.CompVector, syscall.EINVAL)
	}
	if q.Flags&^2 != 0 || q.CompMask != 0 { // overruns may be ignored
		return nil, mmInfo{}, syscall.EOPNOTSUPP
	}
	depth := int(q.CQE)
	if !x.own {
		depth = max(depth, minCQE)
	}
	h, err := x.channelOf(c.process, q.CompChannel)
	if err != nil {
		return nil, mmInfo{}, err
	}
	m := x.provider.completions(depth)
	ring, mem, err := m.in(x)
	if err != nil {
		return nil, mmInfo{}, err
	}
	o := &cq{x: x, ring: mem, depth: m.depth, channel: h}
	o.async.user, o.async.to, o.comp.user = q.UserHandle, x.async, q.UserHandle
	var ch *adapter.Channel
	if h != nil {
		ch, o.comp.to = h.a, h.pipe
	}
	if o.a, err = x.dev.a.CreateCQOn(ring, ch); err != nil {
		mem.close()
		return nil, mmInfo{}, err
	}
	if h != nil {
		h.hold()
	}
	o.a.Owner = o
	return o, x.maps.add(mem), nil
}

func (x *context) createCQ(c *command) error {
	q, _ := parse[createCQ](c.core)
	o, mi, err := x.newCQ(c, &exCreateCQ{UserHandle: q.UserHandle, CQE: q.CQE, CompVector: q.CompVector, CompChannel: q.CompChannel})
	if err != nil {
		return err
	}
	return x.created(c, o, func(h uint32) ([]byte, []byte) {
		o.handle = h
		return bytesOf(&createCQResp{CQHandle: h, CQE: uint32(o.depth)}), x.provider.cq(o, mi)
	})
}

func (x *context) exCreateCQ(c *command) error {
	q, _ := parse[exCreateCQ](c.core)
	o, mi, err := x.newCQ(c, &q)
	if err != nil {
		return err
	}
	return x.created(c, o, func(h uint32) ([]byte, []byte) {
		r := struct {
			createCQResp
			exResp
		}{createCQResp{CQHandle: h, CQE: uint32(o.depth)}, exResp{}}
		r.ResponseLength = uint32(size[createCQResp]() + size[exResp]())
		o.handle = h
		return bytesOf(&r), x.provider.cq(o, mi)
	})
}

// resizeCQ gives the queue another ring. The provider keeps the program from
// polling meanwhile.
func (x *context) resizeCQ(c *command) error {
	q, _ := parse[resizeCQ](c.core)
	o, err := find[*cq](x, q.CQHandle)
	if err != nil {
		return err
	}
	switch {
	case !x.provider.resizes():
		return syscall.EOPNOTSUPP
	case q.CQE == 0 || q.CQE > maxCQE:
		return syscall.EINVAL
	}
	m := x.provider.completions(int(q.CQE))
	ring, mem, err := m.in(x)
	if err != nil {
		return err
	}
	if err := o.a.ResizeOn(ring); err != nil {
		mem.close()
		return err
	}
	x.release(o.ring)
	o.ring, o.depth = mem, m.depth
	mi := x.maps.add(mem)
	return c.respond(bytesOf(&resizeCQResp{CQE: uint32(o.depth)}), x.provider.cq(o, mi))
}

func (x *context) destroyCQ(c *command) error {
	q, _ := parse[destroy](c.core)
	o, err := remove[*cq](x, q.Handle)
	if err != nil {
		return err
	}
	return c.respond(bytesOf(&o.told), nil)
}

func (x *context) reqNotifyCQ(c *command) error {
	q, _ := parse[reqNotifyCQ](c.core)
	o, err := find[*cq](x, q.CQHandle)
	if err != nil {
		return err
	}
	o.a.Arm(q.SolicitedOnly != 0)
	return nil
}
