//go:build linux

package uverbs

import (
	"encoding/binary"
	"fmt"
	"syscall"

	"softrdma/internal/adapter"
	"softrdma/internal/queue"
)

// srq is a shared receive queue that the program posts to by itself.
type srq struct {
	x     *context
	a     *adapter.SRQ
	ring  *shared
	async reports
	told  uint32 // events, at the end
}

func (s *srq) asyncEvent(t uint32) { s.async.asyncEvent(t) }
func (s *srq) rank() int           { return rankQueue }

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
	if q.MaxWR == 0 || q.MaxWR > maxQPWR || q.MaxSGE == 0 || q.MaxSGE > maxSGE || q.SRQLimit > q.MaxWR {
		return fmt.Errorf("%d requests of %d entries, limit %d: %w", q.MaxWR, q.MaxSGE, q.SRQLimit, syscall.EINVAL)
	}
	depth, sge := int(q.MaxWR), int(q.MaxSGE)
	ring, err := newShared(queue.RecvRingLen(depth, sge))
	if err != nil {
		return err
	}
	o := &srq{x: x, ring: ring}
	o.async.user, o.async.to = q.UserHandle, x.async
	if o.a, err = p.a.CreateSRQOn(queue.RecvRingOn(ring.mem, depth, sge)); err != nil {
		ring.close()
		return err
	}
	o.a.StartLimit(int(q.SRQLimit))
	o.a.Owner = o
	mi := x.maps.add(ring)
	return x.created(c, o, func(h uint32) ([]byte, []byte) {
		r := createSRQResp{SRQHandle: h, MaxWR: uint32(o.a.Ring().Depth()), MaxSGE: q.MaxSGE, SRQN: h}
		return bytesOf(&r), bytesOf(&createSRQDriver{MI: mi, SRQNum: h})
	})
}

const (
	srqMaxWR = 1 << 0
	srqLimit = 1 << 1
)

func (x *context) modifySRQ(c *command) error {
	q, _ := parse[modifySRQ](c.core)
	o, err := find[*srq](x, q.SRQHandle)
	if err != nil {
		return err
	}
	if q.AttrMask&^(srqMaxWR|srqLimit) != 0 {
		return syscall.EINVAL
	}
	if q.AttrMask&srqMaxWR != 0 {
		if err := x.resizeSRQ(c, o, &q); err != nil {
			return err
		}
	}
	if q.AttrMask&srqLimit != 0 {
		return o.a.SetLimit(int(q.SRQLimit))
	}
	return nil
}

// resizeSRQ gives the queue another ring. Where the program maps it is written
// to an address that the provider gives with the command.
func (x *context) resizeSRQ(c *command, o *srq, q *modifySRQ) error {
	if q.MaxWR == 0 || q.MaxWR > maxQPWR || len(c.driver) < 8 {
		return syscall.EINVAL
	}
	depth, sge := int(q.MaxWR), o.a.Ring().MaxSGE()
	ring, err := newShared(queue.RecvRingLen(depth, sge))
	if err != nil {
		return err
	}
	if err := o.a.ResizeOn(depth, queue.RecvRingOn(ring.mem, depth, sge)); err != nil {
		ring.close()
		return err
	}
	x.release(o.ring)
	o.ring = ring
	mi := x.maps.add(ring)
	return c.process.Store(binary.NativeEndian.Uint64(c.driver), bytesOf(&mi))
}

func (x *context) querySRQ(c *command) error {
	q, _ := parse[querySRQ](c.core)
	o, err := find[*srq](x, q.SRQHandle)
	if err != nil {
		return err
	}
	r := o.a.Ring()
	return c.respond(bytesOf(&querySRQResp{MaxWR: uint32(r.Depth()), MaxSGE: uint32(r.MaxSGE()), SRQLimit: uint32(o.a.Limit())}), nil)
}

func (x *context) destroySRQ(c *command) error {
	q, _ := parse[destroy](c.core)
	o, err := remove[*srq](x, q.Handle)
	if err != nil {
		return err
	}
	return c.respond(bytesOf(&destroyResp{o.told}), nil)
}
