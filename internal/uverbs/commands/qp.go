//go:build linux

package commands

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"softrdma/internal/adapter"
	"softrdma/internal/psn"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/uverbs/client"
	"softrdma/internal/uverbs/device"
	"softrdma/internal/wire/uapi"
)

// A queuePair is a queue pair. The program posts to its rings directly.
type queuePair struct {
	x        *context
	a        *adapter.QP
	sq, rq   *client.SharedMemory // rq is nil with an SRQ
	pd       *pd
	cqs      [2]*cq // of sends and receives
	caps     uapi.CreateQPResp
	sigAll   uint8
	async    eventSource
	reported uint32 // events, when it was destroyed
}

func (q *queuePair) asyncEvent(e adapter.AsyncEvent) { q.async.asyncEvent(e) }

// setHandle is called before the program knows the queue pair.
func (q *queuePair) setHandle(h uint32) {
	q.caps.QPHandle = h
	if d := q.x.dev.Deferrals; d != nil {
		q.a.SetDeferral(&d[h%uint32(len(d))], q.x.file.ID+uint64(h)) // by what a doorbell contains
	}
}

func (q *queuePair) kind() kind { return kindQP }

func (q *queuePair) destroy() error {
	q.x.dev.SetOwner(q.a.QPN, nil)
	if err := q.a.Destroy(); err != nil {
		return err
	}
	q.reported = q.async.end()
	q.x.maps.Release(q.sq)
	q.x.maps.Release(q.rq)
	return nil
}

func (x *context) newQP(c *command, q *uapi.ExCreateQPBase) (*queuePair, []byte, error) {
	p, err := find[*pd](x, q.PDHandle)
	if err != nil {
		return nil, nil, err
	}
	send, err := find[*cq](x, q.SendCQ)
	if err != nil {
		return nil, nil, err
	}
	recv, err := find[*cq](x, q.RecvCQ)
	if err != nil {
		return nil, nil, err
	}
	if q.IsSRQ != 0 {
		q.MaxRecvWR, q.MaxRecvSGE = 0, 0 // Linux ignores them: the queue pair has no receive queue
	}
	maxSGE, maxInline := x.provider.limits()
	switch t := qp.Type(q.Type); {
	case t != qp.RC && t != qp.UC && t != qp.UD:
		return nil, nil, fmt.Errorf("queue pair type %d: %w", q.Type, syscall.EOPNOTSUPP)
	case q.MaxSendWR > device.MaxQPWR || q.MaxRecvWR > device.MaxQPWR || q.MaxSendSGE > uint32(maxSGE) || q.MaxRecvSGE > uint32(maxSGE) || q.MaxInline > uint32(maxInline):
		return nil, nil, fmt.Errorf("%d sends of %d entries and %d bytes inline, %d receives of %d: %w",
			q.MaxSendWR, q.MaxSendSGE, q.MaxInline, q.MaxRecvWR, q.MaxRecvSGE, syscall.EINVAL)
	}
	o := &queuePair{x: x, sigAll: q.SQSigAll, pd: p, cqs: [2]*cq{send, recv}}
	o.async.user, o.async.to = q.UserHandle, x.async
	cfg := &adapter.QPConfig{Type: qp.Type(q.Type), SendCQ: send.a, RecvCQ: recv.a, SignalAll: q.SQSigAll != 0}
	if q.IsSRQ != 0 {
		s, err := find[*srq](x, q.SRQ)
		if err != nil {
			return nil, nil, err
		}
		cfg.SRQ = s.a
	}
	if err := o.rings(cfg, q); err != nil {
		return nil, nil, err
	}
	if o.a, err = p.a.CreateQP(cfg); err != nil {
		o.sq.Close()
		o.rq.Close()
		return nil, nil, err
	}
	o.a.Owner = o
	o.caps.QPN = o.a.QPN
	x.dev.SetOwner(o.a.QPN, c.Process)
	sq, rq := x.maps.Add(o.sq), uapi.MmInfo{}
	if o.rq != nil {
		rq = x.maps.Add(o.rq)
	}
	return o, x.provider.qp(o, sq, rq), nil
}

// rings creates the queue pair's rings.
func (q *queuePair) rings(c *adapter.QPConfig, w *uapi.ExCreateQPBase) (err error) {
	// A request has room for entries or for inline data. All of the room is reported,
	// as Linux's Soft RoCE does: rdma_xclient sends inline without asking for room.
	inline := max(int(w.MaxSendSGE)*queue.SGELen, int(w.MaxInline))
	send := q.x.provider.sends(int(max(w.MaxSendWR, 1)), inline/queue.SGELen, inline)
	if c.SQ, q.sq, err = send.in(q.x); err != nil {
		return err
	}
	q.caps = uapi.CreateQPResp{MaxSendWR: uint32(send.depth), MaxSendSGE: uint32(c.SQ.MaxSGE()), MaxInline: uint32(c.SQ.MaxInline())}
	if c.SRQ != nil {
		return nil
	}
	recv := q.x.provider.receives(int(max(w.MaxRecvWR, 1)), int(w.MaxRecvSGE))
	if c.RQ, q.rq, err = recv.in(q.x); err != nil {
		q.sq.Close()
		return err
	}
	q.caps.MaxRecvWR, q.caps.MaxRecvSGE = uint32(recv.depth), w.MaxRecvSGE
	return nil
}

func (x *context) createQP(c *command) error {
	q, _ := uapi.Parse[uapi.CreateQP](c.core)
	o, driver, err := x.newQP(c, &q.ExCreateQPBase)
	if err != nil {
		return err
	}
	return x.created(c, o, func(h uint32) ([]byte, []byte) {
		o.setHandle(h)
		return uapi.Bytes(&o.caps), driver
	})
}

func (x *context) exCreateQP(c *command) error {
	var q uapi.ExCreateQP
	copy(uapi.Bytes(&q), c.core)
	if q.CompMask != 0 || q.CreateFlags != 0 || q.SourceQPN != 0 {
		return fmt.Errorf("mask %#x, flags %#x: %w", q.CompMask, q.CreateFlags, syscall.EOPNOTSUPP)
	}
	o, driver, err := x.newQP(c, &q.ExCreateQPBase)
	if err != nil {
		return err
	}
	return x.created(c, o, func(h uint32) ([]byte, []byte) {
		o.setHandle(h)
		r := struct {
			uapi.CreateQPResp
			uapi.ExResp
		}{o.caps, uapi.ExResp{}}
		r.ResponseLength = uint32(uapi.Size[uapi.CreateQPResp]() + uapi.Size[uapi.ExResp]())
		return uapi.Bytes(&r), driver
	})
}

// attrs converts the attributes of a command.
func (x *context) attrs(q *uapi.ModifyQP, mask qp.Mask) (*qp.Attr, error) {
	a := q.Attr()
	a.RQPSN, a.SQPSN = psn.New(q.RQPSN), psn.New(q.SQPSN) // as Linux's drivers do
	a.Access &^= ignoredAccess
	a.EnSQDNotify = q.SQD != 0
	switch {
	case mask&qp.MaskState != 0 && a.State > qp.Err, mask&qp.MaskCurState != 0 && a.CurState > qp.Err:
		return nil, fmt.Errorf("state %d: %w", q.State, syscall.EINVAL)
	case mask >= qp.MaskDestQPN<<1:
		return nil, fmt.Errorf("attributes %v: %w", mask, syscall.EOPNOTSUPP)
	}
	if mask&qp.MaskAV != 0 {
		h := q.Dest.AH()
		var err error
		if a.Path, err = x.dev.Path(&h); err != nil {
			return nil, err
		}
	}
	return &a, nil
}

func (x *context) modifyQP(c *command) error {
	q, _ := uapi.Parse[uapi.ModifyQP](c.core)
	o, err := find[*queuePair](x, q.QPHandle)
	if err != nil {
		return err
	}
	mask := qp.Mask(q.AttrMask)
	a, err := x.attrs(&q, mask)
	if err != nil {
		return err
	}
	if err := o.a.Modify(mask, a); err != nil && !x.ignores(err) {
		return err
	}
	return c.respond(uapi.Bytes(&uapi.ExResp{ResponseLength: uint32(uapi.Size[uapi.ExResp]())}), nil)
}

// ignores reports whether a failed change of state is ignored, as Linux's siw does
// with invalid transitions. librdmacm asks for SQD when the
// connection of a queue pair has already ended.
func (x *context) ignores(err error) bool {
	var t *qp.TransitionError
	return x.dev.Adapter.IWARP() && errors.As(err, &t)
}

func (x *context) queryQP(c *command) error {
	q, _ := uapi.Parse[uapi.QueryQP](c.core)
	o, err := find[*queuePair](x, q.QPHandle)
	if err != nil {
		return err
	}
	a := o.a.Query()
	r := uapi.QueryQPResp{
		MaxSendWR: o.caps.MaxSendWR, MaxRecvWR: o.caps.MaxRecvWR, MaxSendSGE: o.caps.MaxSendSGE, MaxRecvSGE: o.caps.MaxRecvSGE,
		MaxInline: o.caps.MaxInline, QPAttrs: uapi.QPAttrsOf(&a),
	}
	r.CurState, r.SQSigAll = r.State, o.sigAll
	if a.SQDraining {
		r.SQD = 1
	}
	if a.Path.Dst.Addr().IsValid() {
		h := x.dev.AH(&a.Path)
		r.Dest = h.Dest()
	}
	return c.respond(uapi.Bytes(&r), nil)
}

func (x *context) destroyQP(c *command) error {
	q, _ := uapi.Parse[uapi.Destroy](c.core)
	o, err := remove[*queuePair](x, q.Handle)
	if err != nil {
		return err
	}
	return c.respond(uapi.Bytes(&uapi.DestroyResp{EventsReported: o.reported}), nil)
}

// postSend is a doorbell: the requests are in the ring already.
func (x *context) postSend(c *command) error {
	q, _ := uapi.Parse[uapi.PostSend](c.core)
	o, err := find[*queuePair](x, q.QPHandle)
	if err != nil {
		return err
	}
	if q.WRCount != 0 || o.a.StateHint() < qp.RTS {
		return syscall.EINVAL
	}
	if o.a.Posted() >= LongPost {
		c.Answer.SendEarly()
	}
	o.a.Doorbell()
	return nil
}

// LongPost is the number of posted bytes from which a doorbell is answered before the
// requests are executed, so that the program posts the next ones meanwhile. With
// fewer bytes the program learns of the completion soonest by a later answer.
const LongPost = 128 << 10

// group returns the address of a multicast GID.
func group(gid [16]byte) netip.Addr { return netip.AddrFrom16(gid).Unmap() }

func (x *context) attachMcast(c *command) error {
	q, _ := uapi.Parse[uapi.Mcast](c.core)
	o, err := find[*queuePair](x, q.QPHandle)
	if err != nil {
		return err
	}
	return o.a.AttachMulticast(group(q.GID))
}

func (x *context) detachMcast(c *command) error {
	q, _ := uapi.Parse[uapi.Mcast](c.core)
	o, err := find[*queuePair](x, q.QPHandle)
	if err != nil {
		return err
	}
	return o.a.DetachMulticast(group(q.GID))
}
