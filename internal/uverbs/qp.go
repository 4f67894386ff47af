//go:build linux

package uverbs

import (
	"fmt"
	"net/netip"
	"syscall"

	"softrdma/internal/adapter"
	"softrdma/internal/psn"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
)

// A queuePair is one that the program posts to by itself.
type queuePair struct {
	x      *context
	a      *adapter.QP
	sq, rq *shared // rq is nil with an SRQ
	caps   createQPResp
	sigAll uint8
	async  reports
	told   uint32 // events, at the end
}

func (q *queuePair) asyncEvent(t uint32) { q.async.asyncEvent(t) }
func (q *queuePair) rank() int           { return rankQP }

func (q *queuePair) destroy() error {
	if err := q.a.Destroy(); err != nil {
		return err
	}
	q.told = q.async.end()
	q.x.release(q.sq)
	q.x.release(q.rq)
	return nil
}

// rxeQP is what the provider is told beside: where its rings are.
type rxeQP struct{ RQ, SQ mmInfo }

func (x *context) newQP(q *exCreateQPBase) (*queuePair, rxeQP, error) {
	p, err := find[*pd](x, q.PDHandle)
	if err != nil {
		return nil, rxeQP{}, err
	}
	send, err := find[*cq](x, q.SendCQ)
	if err != nil {
		return nil, rxeQP{}, err
	}
	recv, err := find[*cq](x, q.RecvCQ)
	if err != nil {
		return nil, rxeQP{}, err
	}
	switch t := qp.Type(q.Type); {
	case t != qp.RC && t != qp.UC && t != qp.UD:
		return nil, rxeQP{}, fmt.Errorf("queue pair type %d: %w", q.Type, syscall.EOPNOTSUPP)
	case q.MaxSendWR > maxQPWR || q.MaxRecvWR > maxQPWR || q.MaxSendSGE > maxSGE || q.MaxRecvSGE > maxSGE || q.MaxInline > maxInline:
		return nil, rxeQP{}, fmt.Errorf("%d sends of %d entries and %d bytes inline, %d receives of %d: %w",
			q.MaxSendWR, q.MaxSendSGE, q.MaxInline, q.MaxRecvWR, q.MaxRecvSGE, syscall.EINVAL)
	}
	o := &queuePair{x: x, sigAll: q.SQSigAll}
	o.async.user, o.async.to = q.UserHandle, x.async
	c := &adapter.QPConfig{Type: qp.Type(q.Type), SendCQ: send.a, RecvCQ: recv.a, SignalAll: q.SQSigAll != 0}
	if q.IsSRQ != 0 {
		s, err := find[*srq](x, q.SRQ)
		if err != nil {
			return nil, rxeQP{}, err
		}
		c.SRQ, q.MaxRecvWR, q.MaxRecvSGE = s.a, 0, 0
	}
	if err := o.rings(c, q); err != nil {
		return nil, rxeQP{}, err
	}
	if o.a, err = p.a.CreateQP(c); err != nil {
		o.sq.close()
		o.rq.close()
		return nil, rxeQP{}, err
	}
	o.a.Owner = o
	o.caps.QPN = o.a.QPN
	maps := rxeQP{SQ: x.maps.add(o.sq)}
	if o.rq != nil {
		maps.RQ = x.maps.add(o.rq)
	}
	return o, maps, nil
}

// rings makes the queue pair's rings.
func (q *queuePair) rings(c *adapter.QPConfig, w *exCreateQPBase) (err error) {
	depth, sge, inline := int(max(w.MaxSendWR, 1)), int(w.MaxSendSGE), int(w.MaxInline)
	if q.sq, err = newShared(queue.SendRingLen(depth, sge, inline)); err != nil {
		return err
	}
	c.SQ = queue.SendRingOn(q.sq.mem, depth, sge, inline)
	q.caps = createQPResp{MaxSendWR: uint32(c.SQ.Depth()), MaxSendSGE: w.MaxSendSGE, MaxInline: w.MaxInline}
	if c.SRQ != nil {
		return nil
	}
	depth, sge = int(max(w.MaxRecvWR, 1)), int(w.MaxRecvSGE)
	if q.rq, err = newShared(queue.RecvRingLen(depth, sge)); err != nil {
		q.sq.close()
		return err
	}
	c.RQ = queue.RecvRingOn(q.rq.mem, depth, sge)
	q.caps.MaxRecvWR, q.caps.MaxRecvSGE = uint32(c.RQ.Depth()), w.MaxRecvSGE
	return nil
}

func (x *context) createQP(c *command) error {
	q, _ := parse[createQP](c.core)
	o, maps, err := x.newQP(&q.exCreateQPBase)
	if err != nil {
		return err
	}
	return x.created(c, o, func(h uint32) ([]byte, []byte) {
		o.caps.QPHandle = h
		return bytesOf(&o.caps), bytesOf(&maps)
	})
}

func (x *context) exCreateQP(c *command) error {
	var q exCreateQP
	copy(bytesOf(&q), c.core)
	if q.CompMask != 0 || q.CreateFlags != 0 || q.SourceQPN != 0 {
		return fmt.Errorf("mask %#x, flags %#x: %w", q.CompMask, q.CreateFlags, syscall.EOPNOTSUPP)
	}
	o, maps, err := x.newQP(&q.exCreateQPBase)
	if err != nil {
		return err
	}
	return x.created(c, o, func(h uint32) ([]byte, []byte) {
		o.caps.QPHandle = h
		r := struct {
			createQPResp
			exResp
		}{o.caps, exResp{}}
		r.ResponseLength = uint32(size[createQPResp]() + size[exResp]())
		return bytesOf(&r), bytesOf(&maps)
	})
}

// attrs are the attributes of a command as the adapter has them.
func (x *context) attrs(q *modifyQP, mask qp.Mask) (*qp.Attr, error) {
	a := &qp.Attr{
		State: qp.State(q.State), CurState: qp.State(q.CurState), QKey: q.QKey,
		RQPSN: psn.PSN(q.RQPSN), SQPSN: psn.PSN(q.SQPSN), DestQPN: q.DestQPN, Access: qp.Access(q.AccessFlags) &^ ignoredAccess,
		PKeyIndex: q.PKeyIndex, Port: q.PortNum, MaxRdAtomic: q.MaxRdAtomic, MaxDestRdAtomic: q.MaxDestRdAtomic,
		MinRNRTimer: q.MinRNRTimer, Timeout: q.Timeout, RetryCnt: q.RetryCnt, RNRRetry: q.RNRRetry, EnSQDNotify: q.EnSQDNotify != 0,
	}
	if q.PathMTU >= 1 && q.PathMTU <= 5 {
		a.PathMTU = 128 << q.PathMTU
	}
	switch {
	case mask&qp.MaskState != 0 && a.State > qp.Err, mask&qp.MaskCurState != 0 && a.CurState > qp.Err:
		return nil, fmt.Errorf("state %d: %w", q.State, syscall.EINVAL)
	case mask >= qp.MaskDestQPN<<1:
		return nil, fmt.Errorf("attributes %v: %w", mask, syscall.EOPNOTSUPP)
	}
	if mask&qp.MaskAV != 0 {
		if q.Dest.IsGlobal == 0 || q.Dest.PortNum != 1 {
			return nil, fmt.Errorf("address without a global route, or not of port 1: %w", syscall.EINVAL)
		}
		var err error
		d := &q.Dest
		if a.Path, err = x.dev.path(d.DGID, d.SGIDIndex, d.FlowLabel, d.TrafficClass, d.HopLimit); err != nil {
			return nil, err
		}
	}
	return a, nil
}

func (x *context) modifyQP(c *command) error {
	q, _ := parse[modifyQP](c.core)
	o, err := find[*queuePair](x, q.QPHandle)
	if err != nil {
		return err
	}
	mask := qp.Mask(q.AttrMask)
	a, err := x.attrs(&q, mask)
	if err != nil {
		return err
	}
	if err := o.a.Modify(mask, a); err != nil {
		return err
	}
	return c.respond(bytesOf(&exResp{ResponseLength: uint32(size[exResp]())}), nil)
}

func (x *context) queryQP(c *command) error {
	q, _ := parse[queryQP](c.core)
	o, err := find[*queuePair](x, q.QPHandle)
	if err != nil {
		return err
	}
	a := o.a.Query()
	r := queryQPResp{
		MaxSendWR: o.caps.MaxSendWR, MaxRecvWR: o.caps.MaxRecvWR, MaxSendSGE: o.caps.MaxSendSGE, MaxRecvSGE: o.caps.MaxRecvSGE,
		MaxInline: o.caps.MaxInline, QKey: a.QKey, RQPSN: uint32(a.RQPSN), SQPSN: uint32(a.SQPSN), DestQPN: a.DestQPN,
		AccessFlags: uint32(a.Access), PKeyIndex: a.PKeyIndex, State: uint8(a.State), CurState: uint8(a.State), PathMTU: mtuEnum(a.PathMTU),
		MaxRdAtomic: a.MaxRdAtomic, MaxDestRdAtomic: a.MaxDestRdAtomic, MinRNRTimer: a.MinRNRTimer, PortNum: a.Port,
		Timeout: a.Timeout, RetryCnt: a.RetryCnt, RNRRetry: a.RNRRetry, SQSigAll: o.sigAll,
	}
	if a.SQDraining {
		r.SQDraining = 1
	}
	if p := &a.Path; p.Dst.Addr().IsValid() {
		r.Dest = qpDest{
			DGID: p.Dst.Addr().WithZone("").As16(), FlowLabel: p.FlowLabel, SGIDIndex: p.SGIDIndex, HopLimit: p.HopLimit,
			TrafficClass: p.TrafficClass, IsGlobal: 1, PortNum: 1,
		}
	}
	return c.respond(bytesOf(&r), nil)
}

func (x *context) destroyQP(c *command) error {
	q, _ := parse[destroy](c.core)
	o, err := remove[*queuePair](x, q.Handle)
	if err != nil {
		return err
	}
	return c.respond(bytesOf(&destroyResp{o.told}), nil)
}

// postSend is a doorbell: the requests are in the ring already.
func (x *context) postSend(c *command) error {
	q, _ := parse[postSend](c.core)
	o, err := find[*queuePair](x, q.QPHandle)
	if err != nil {
		return err
	}
	if q.WRCount != 0 || o.a.StateHint() < qp.RTS {
		return syscall.EINVAL
	}
	o.a.Doorbell()
	return nil
}

// group is the address of a multicast GID.
func group(gid [16]byte) netip.Addr { return netip.AddrFrom16(gid).Unmap() }

func (x *context) attachMcast(c *command) error {
	q, _ := parse[mcast](c.core)
	o, err := find[*queuePair](x, q.QPHandle)
	if err != nil {
		return err
	}
	return o.a.AttachMulticast(group(q.GID))
}

func (x *context) detachMcast(c *command) error {
	q, _ := parse[mcast](c.core)
	o, err := find[*queuePair](x, q.QPHandle)
	if err != nil {
		return err
	}
	return o.a.DetachMulticast(group(q.GID))
}
