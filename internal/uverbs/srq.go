//go:build linux

package uverbs

import (
	"encoding/binary"
	"fmt"
	"syscall"

	"softrdma/internal/adapter"
	"softrdma/internal/uverbs/uapi"
)

// srq is a shared receive queue that the program posts to by itself.
type srq struct {
	x      *context
	a      *adapter.SRQ
	ring   *shared
	depth  int
	handle uint32
	async  reports
	told   uint32 // events, at the end
}

func (s *srq) asyncEvent(e adapter.AsyncEvent) { s.async.asyncEvent(e) }
func (s *srq) rank() int                       { return rankQueue }

func (s *srq) destroy() error {
	if err := s.a.Destroy(); err != nil {
		return err
	}
	s.told = s.async.end()
	s.x.release(s.ring)
	return nil
}

func (x *context) createSRQ(c *command) error {
	q, _ := parse[createSRQ](c.core)
	return x.newSRQ(c, &q)
}

func (x *context) createXSRQ(c *command) error {
	q, _ := parse[createXSRQ](c.core)
	if q.SRQType != 0 { // basic
		return syscall.EOPNOTSUPP
	}
	return x.newSRQ(c, &createSRQ{
		Response: q.Response, UserHandle: q.UserHandle, PDHandle: q.PDHandle, MaxWR: q.MaxWR, MaxSGE: q.MaxSGE, SRQLimit: q.SRQLimit,
	})
}

func (x *context) newSRQ(c *command, q *createSRQ) error {
	p, err := find[*pd](x, q.PDHandle)
	if err != nil {
		return err
	}
	most, _ := x.provider.limits()
	if q.MaxWR == 0 || q.MaxWR > maxQPWR || q.MaxSGE == 0 || q.MaxSGE > uint32(most) || q.SRQLimit > q.MaxWR {
		return fmt.Errorf("%d requests of %d entries, limit %d: %w", q.MaxWR, q.MaxSGE, q.SRQLimit, syscall.EINVAL)
	}
	m := x.provider.receives(int(q.MaxWR), int(q.MaxSGE))
	ring, mem, err := m.in(x)
	if err != nil {
		return err
	}
	o := &srq{x: x, ring: mem, depth: m.depth}
	o.async.user, o.async.to = q.UserHandle, x.async
	if o.a, err = p.a.CreateSRQOn(ring); err != nil {
		mem.close()
		return err
	}
	o.a.StartLimit(int(q.SRQLimit))
	o.a.Owner = o
	mi := x.maps.add(mem)
	return x.created(c, o, func(h uint32) ([]byte, []byte) {
		o.handle = h
		r := createSRQResp{SRQHandle: h, MaxWR: uint32(o.depth), MaxSGE: q.MaxSGE, SRQN: h}
		return bytesOf(&r), x.provider.srq(o, mi)
	})
}

func (x *context) modifySRQ(c *command) error {
	q, _ := parse[modifySRQ](c.core)
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

// resizeSRQ gives the queue another ring. Where the program maps it is written
// to an address that the provider gives with the command.
func (x *context) resizeSRQ(c *command, o *srq, q *modifySRQ) error {
	switch {
	case !x.provider.resizes():
		return syscall.EOPNOTSUPP
	case q.MaxWR == 0 || q.MaxWR > maxQPWR || len(c.driver) < 8:
		return syscall.EINVAL
	}
	m := x.provider.receives(int(q.MaxWR), o.a.Ring().MaxSGE())
	ring, mem, err := m.in(x)
	if err != nil {
		return err
	}
	if err := o.a.ResizeOn(int(q.MaxWR), ring); err != nil {
		mem.close()
		return err
	}
	x.release(o.ring)
	o.ring, o.depth = mem, m.depth
	mi := x.maps.add(mem)
	return c.process.Store(binary.NativeEndian.Uint64(c.driver), bytesOf(&mi))
}

func (x *context) querySRQ(c *command) error {
	q, _ := parse[querySRQ](c.core)
	o, err := find[*srq](x, q.SRQHandle)
	if err != nil {
		return err
	}
	return c.respond(bytesOf(&querySRQResp{MaxWR: uint32(o.depth), MaxSGE: uint32(o.a.Ring().MaxSGE()), SRQLimit: uint32(o.a.Limit())}), nil)
}

func (x *context) destroySRQ(c *command) error {
	q, _ := parse[destroy](c.core)
	o, err := remove[*srq](x, q.Handle)
	if err != nil {
		return err
	}
	return c.respond(bytesOf(&destroyResp{EventsReported: o.told}), nil)
}
