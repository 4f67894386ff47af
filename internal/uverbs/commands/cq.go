//go:build linux

package commands

import (
	"encoding/binary"
	"fmt"
	"syscall"

	"softrdma/internal/adapter"
	"softrdma/internal/queue"
	"softrdma/internal/uverbs/device"
	"softrdma/internal/wire/uapi"
)

// minCQE is the least depth of a completion queue of a program with libibverbs.
// Programs that wait for events may leave completions in the queue, and rely on the
// extra depth that hardware gives.
const minCQE = 60

// cq is a completion queue. The program polls its ring directly.
type cq struct {
	ring
	x       *context
	a       *adapter.CQ
	handle  uint32
	channel *channel

	async, comp eventSource
	reported    uapi.DestroyCQResp // the answer to its destruction
}

// completed sends an event of the queue. It is called with the lane held.
func (q *cq) completed() {
	var b [8]byte
	binary.NativeEndian.PutUint64(b[:], q.comp.user)
	q.comp.send(b[:])
}

func (q *cq) asyncEvent(e adapter.AsyncEvent) { q.async.asyncEvent(e) }
func (q *cq) kind() kind                      { return kindCQ }

func (q *cq) destroy() error {
	if err := q.a.Destroy(); err != nil {
		return err
	}
	q.reported = uapi.DestroyCQResp{CompEvents: q.comp.end(), AsyncEvents: q.async.end()}
	if q.channel != nil {
		q.channel.drop()
	}
	q.x.maps.Release(q.mem)
	return nil
}

// newCQ creates the completion queue of either command.
func (x *context) newCQ(c *command, q *uapi.ExCreateCQ) (*cq, uapi.MmInfo, error) {
	if q.CQE == 0 || q.CQE > device.MaxCQE || q.CompVector != 0 {
		return nil, uapi.MmInfo{}, fmt.Errorf("%d entries, vector %d: %w", q.CQE, q.CompVector, syscall.EINVAL)
	}
	if q.Flags&^2 != 0 || q.CompMask != 0 { // overruns may be ignored
		return nil, uapi.MmInfo{}, syscall.EOPNOTSUPP
	}
	depth := max(int(q.CQE), minCQE)
	h, err := x.channelOf(c.Process, q.CompChannel)
	if err != nil {
		return nil, uapi.MmInfo{}, err
	}
	o := &cq{x: x, channel: h}
	o.async.user, o.async.to, o.comp.user = q.UserHandle, x.async, q.UserHandle
	var ch *adapter.Channel
	if h != nil {
		ch, o.comp.to = h.a, h.pipe
	}
	var at uapi.MmInfo
	o.ring, at, err = x.provider.completions(depth).place(x, func(r *queue.CompletionRing) (err error) {
		o.a, err = x.dev.Adapter.CreateCQFor(x.Owner(), r, ch)
		return err
	})
	if err != nil {
		return nil, uapi.MmInfo{}, err
	}
	if h != nil {
		h.hold()
	}
	o.a.Owner = o
	return o, at, nil
}

func (x *context) createCQ(c *command) error {
	q, _ := uapi.Parse[uapi.CreateCQ](c.core)
	o, mi, err := x.newCQ(c, &uapi.ExCreateCQ{UserHandle: q.UserHandle, CQE: q.CQE, CompVector: q.CompVector, CompChannel: q.CompChannel})
	if err != nil {
		return err
	}
	return x.created(c, o, func(h uint32) ([]byte, []byte) {
		o.handle = h
		return uapi.Bytes(&uapi.CreateCQResp{CQHandle: h, CQE: uint32(o.depth)}), x.provider.cq(o, mi)
	})
}

func (x *context) exCreateCQ(c *command) error {
	q, _ := uapi.Parse[uapi.ExCreateCQ](c.core)
	o, mi, err := x.newCQ(c, &q)
	if err != nil {
		return err
	}
	return x.created(c, o, func(h uint32) ([]byte, []byte) {
		r := struct {
			uapi.CreateCQResp
			uapi.ExResp
		}{uapi.CreateCQResp{CQHandle: h, CQE: uint32(o.depth)}, uapi.ExResp{}}
		r.ResponseLength = uint32(uapi.Size[uapi.CreateCQResp]() + uapi.Size[uapi.ExResp]())
		o.handle = h
		return uapi.Bytes(&r), x.provider.cq(o, mi)
	})
}

// resizeCQ replaces the ring of the queue. The provider keeps the program from
// polling meanwhile.
func (x *context) resizeCQ(c *command) error {
	q, _ := uapi.Parse[uapi.ResizeCQ](c.core)
	o, err := find[*cq](x, q.CQHandle)
	if err != nil {
		return err
	}
	switch {
	case !x.provider.resizes():
		return syscall.EOPNOTSUPP
	case q.CQE == 0 || q.CQE > device.MaxCQE:
		return syscall.EINVAL
	}
	next, at, err := x.provider.completions(int(q.CQE)).place(x, o.a.ResizeOn)
	if err != nil {
		return err
	}
	x.maps.Release(o.mem)
	o.ring = next
	return c.respond(uapi.Bytes(&uapi.ResizeCQResp{CQE: uint32(o.depth)}), x.provider.cq(o, at))
}

func (x *context) destroyCQ(c *command) error {
	q, _ := uapi.Parse[uapi.Destroy](c.core)
	o, err := remove[*cq](x, q.Handle)
	if err != nil {
		return err
	}
	return c.respond(uapi.Bytes(&o.reported), nil)
}

func (x *context) reqNotifyCQ(c *command) error {
	q, _ := uapi.Parse[uapi.ReqNotifyCQ](c.core)
	o, err := find[*cq](x, q.CQHandle)
	if err != nil {
		return err
	}
	o.a.Arm(q.SolicitedOnly != 0)
	return nil
}
