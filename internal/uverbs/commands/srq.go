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

// srq is a shared receive queue. The program posts to its ring directly.
type srq struct {
	ring
	x        *context
	a        *adapter.SRQ
	pd       *pd
	handle   uint32
	async    eventSource
	reported uint32 // events, when it was destroyed
}

func (s *srq) asyncEvent(e adapter.AsyncEvent) { s.async.asyncEvent(e) }
func (s *srq) kind() kind                      { return kindSRQ }

func (s *srq) destroy() error {
	if err := s.a.Destroy(); err != nil {
		return err
	}
	s.reported = s.async.end()
	s.x.maps.Release(s.mem)
	return nil
}

func (x *context) createSRQ(c *command) error {
	q, _ := uapi.Parse[uapi.CreateSRQ](c.core)
	return x.newSRQ(c, &q)
}

func (x *context) createXSRQ(c *command) error {
	q, _ := uapi.Parse[uapi.CreateXSRQ](c.core)
	if q.SRQType != 0 { // basic
		return syscall.EOPNOTSUPP
	}
	return x.newSRQ(c, &uapi.CreateSRQ{
		Response: q.Response, UserHandle: q.UserHandle, PDHandle: q.PDHandle, MaxWR: q.MaxWR, MaxSGE: q.MaxSGE, SRQLimit: q.SRQLimit,
	})
}

func (x *context) newSRQ(c *command, q *uapi.CreateSRQ) error {
	p, err := find[*pd](x, q.PDHandle)
	if err != nil {
		return err
	}
	most, _ := x.provider.limits()
	if q.MaxWR == 0 || q.MaxWR > device.MaxQPWR || q.MaxSGE == 0 || q.MaxSGE > uint32(most) {
		return fmt.Errorf("%d requests of %d entries: %w", q.MaxWR, q.MaxSGE, syscall.EINVAL)
	}
	o := &srq{x: x, pd: p}
	o.async.user, o.async.to = q.UserHandle, x.async
	var at uapi.MmInfo
	o.ring, at, err = x.provider.receives(int(q.MaxWR), int(q.MaxSGE)).place(x, func(r *queue.RecvRing) (err error) {
		o.a, err = p.a.CreateSRQOn(r)
		return err
	})
	if err != nil {
		return err
	}
	o.a.StartLimit(int(min(q.SRQLimit, q.MaxWR))) // Linux takes any limit for a new queue
	o.a.Owner = o
	return x.created(c, o, func(h uint32) ([]byte, []byte) {
		o.handle = h
		r := uapi.CreateSRQResp{SRQHandle: h, MaxWR: uint32(o.depth), MaxSGE: q.MaxSGE, SRQN: h}
		return uapi.Bytes(&r), x.provider.srq(o, at)
	})
}

func (x *context) modifySRQ(c *command) error {
	q, _ := uapi.Parse[uapi.ModifySRQ](c.core)
	o, err := find[*srq](x, q.SRQHandle)
	if err != nil {
		return err
	}
	if q.AttrMask&^(uapi.SRQMaxWR|uapi.SRQLimit) != 0 {
		return syscall.EINVAL
	}
	if q.AttrMask&uapi.SRQMaxWR != 0 {
		if err := x.resizeSRQ(c, o, &q); err != nil {
			return err
		}
	}
	if q.AttrMask&uapi.SRQLimit != 0 {
		return o.a.SetLimit(int(q.SRQLimit))
	}
	return nil
}

// resizeSRQ replaces the ring of the queue. Its offset and length are written to an
// address that the provider adds to the command.
func (x *context) resizeSRQ(c *command, o *srq, q *uapi.ModifySRQ) error {
	switch {
	case !x.provider.resizes():
		return syscall.EOPNOTSUPP
	case q.MaxWR == 0 || q.MaxWR > device.MaxQPWR || len(c.driver) < 8:
		return syscall.EINVAL
	}
	next, at, err := x.provider.receives(int(q.MaxWR), o.a.Ring().MaxSGE()).place(x, func(r *queue.RecvRing) error {
		return o.a.ResizeOn(int(q.MaxWR), r)
	})
	if err != nil {
		return err
	}
	x.maps.Release(o.mem)
	o.ring = next
	return c.Process.Store(binary.NativeEndian.Uint64(c.driver), uapi.Bytes(&at))
}

func (x *context) querySRQ(c *command) error {
	q, _ := uapi.Parse[uapi.QuerySRQ](c.core)
	o, err := find[*srq](x, q.SRQHandle)
	if err != nil {
		return err
	}
	return c.respond(uapi.Bytes(&uapi.QuerySRQResp{MaxWR: uint32(o.depth), MaxSGE: uint32(o.a.Ring().MaxSGE()), SRQLimit: uint32(o.a.Limit())}), nil)
}

func (x *context) destroySRQ(c *command) error {
	q, _ := uapi.Parse[uapi.Destroy](c.core)
	o, err := remove[*srq](x, q.Handle)
	if err != nil {
		return err
	}
	return c.respond(uapi.Bytes(&uapi.DestroyResp{EventsReported: o.reported}), nil)
}
