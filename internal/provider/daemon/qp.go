//go:build linux

package daemon

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"softrdma/internal/cmid"
	"softrdma/internal/provider"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/uverbs/uapi"
)

// A pair is a queue pair.
type pair struct {
	resource
	qpn    uint32
	sq     *queue.SendRing
	rq     *queue.RecvRing // nil with an SRQ
	number uint64
	bell   []byte // the message that rings the doorbell

	ops atomic.Uint32 // iWARP: the operations that the connection supports, a bit for each
}

// CreateQP implements provider.PD.
func (p *domain) CreateQP(c *provider.QPConfig, owner any) (provider.QP, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	d := p.d
	send, recv := c.SendCQ.(*completions), c.RecvCQ.(*completions)
	if err := errors.Join(send.gone("send completion queue of the queue pair"), recv.gone("receive completion queue of the queue pair")); err != nil {
		return nil, err
	}
	q := uapi.CreateQP{ExCreateQPBase: uapi.ExCreateQPBase{
		PDHandle: p.handle, SendCQ: send.handle, RecvCQ: recv.handle, Type: uint8(c.Type),
		MaxSendWR: uint32(c.SendDepth), MaxSendSGE: uint32(c.SendSGE), MaxInline: uint32(c.Inline),
		MaxRecvWR: uint32(c.RecvDepth), MaxRecvSGE: uint32(c.RecvSGE),
	}}
	if c.SignalAll {
		q.SQSigAll = 1
	}
	if c.SRQ != nil {
		s := c.SRQ.(*receives)
		if err := s.gone("shared receive queue of the queue pair"); err != nil {
			return nil, err
		}
		q.IsSRQ, q.SRQ = 1, s.handle
	}
	x := &pair{number: d.own(owner)}
	q.UserHandle = x.number
	own := uapi.OwnQP{Control: uint8(c.Control), Recovery: uint8(c.Recovery), PeerTimeout: milliseconds(c.PeerTimeout), PeerProbe: milliseconds(c.PeerProbe)}
	out := uapi.Size[uapi.CreateQPResp]()
	a, err := d.command(uapi.CmdCreateQP, uapi.Bytes(&q), uapi.Bytes(&own), out, uapi.Size[uapi.RxeQP]())
	if err != nil {
		d.disown(x.number)
		return nil, err
	}
	r, _ := uapi.Parse[uapi.CreateQPResp](a)
	maps, _ := uapi.Parse[uapi.RxeQP](a[out:])
	x.made(d, r.QPHandle, &d.counts.qp)
	x.qpn = r.QPN
	if err := x.mapRings(c, &r, &maps); err != nil {
		return nil, errors.Join(err, x.Destroy())
	}
	x.bell = d.bellOf(x.handle)
	return x, nil
}

// milliseconds converts a time for messages.
func milliseconds(d time.Duration) int32 {
	return int32(max(min(d.Milliseconds(), math.MaxInt32), -1))
}

// mapRings maps the rings that the daemon created. They must have room for the
// requested sizes, and may be larger.
func (x *pair) mapRings(c *provider.QPConfig, r *uapi.CreateQPResp, maps *uapi.RxeQP) error {
	mem, err := x.d.mmap(maps.SQ, queue.SendRingLen(int(r.MaxSendWR), c.SendSGE, c.Inline))
	if err != nil {
		return err
	}
	x.sq = queue.SendRingOn(mem, int(r.MaxSendWR), c.SendSGE, c.Inline)
	keep(x.sq, mem)
	if c.SRQ != nil {
		return nil
	}
	if mem, err = x.d.mmap(maps.RQ, queue.RecvRingLen(int(r.MaxRecvWR), c.RecvSGE)); err != nil {
		return err
	}
	x.rq = queue.RecvRingOn(mem, int(r.MaxRecvWR), c.RecvSGE)
	keep(x.rq, mem)
	return nil
}

// bellOf returns the message that rings the doorbell: a POST_SEND without requests,
// which are in the ring.
func (d *Device) bellOf(handle uint32) []byte {
	out := 4
	h := uapi.CmdHeader{Command: uapi.CmdPostSend, InWords: uint16((8 + uapi.Size[uapi.PostSend]()) / 4), OutWords: uint16(out / 4)}
	data := slices.Concat(uapi.Bytes(&h), uapi.Bytes(&uapi.PostSend{QPHandle: handle}))
	r := uapi.Request{Version: uapi.Protocol, Op: uapi.OpWrite, File: d.file, Arg: [4]uint64{1: uint64(len(data))}}
	return slices.Concat(uapi.Bytes(&r), data)
}

// Number implements provider.QP.
func (x *pair) Number() uint32 { return x.qpn }

// SendRing implements provider.QP.
func (x *pair) SendRing() *queue.SendRing { return x.sq }

// RecvRing implements provider.QP.
func (x *pair) RecvRing() *queue.RecvRing { return x.rq }

// Doorbell implements provider.QP. If the daemon is gone nothing is sent, and
// polling reports it.
func (x *pair) Doorbell() {
	for range 2 {
		c, err := x.d.take()
		if err != nil {
			return
		}
		err = c.ring(x.bell)
		x.d.give(c, err != nil)
		if err == nil {
			return
		}
	}
}

// StateHint implements provider.QP.
func (x *pair) StateHint() qp.State {
	if x.d.dead.Load() {
		return qp.Reset
	}
	return qp.State(x.sq.State())
}

// Gone implements provider.QP.
func (x *pair) Gone() error { return x.gone(fmt.Sprintf("queue pair %#06x", x.qpn)) }

// Supports implements provider.QP. The operations of an iWARP connection are known
// once it is established. They are queried once.
func (x *pair) Supports(op queue.Op) error {
	if x.d.Info.Protocol != cmid.IWARP || op < 32 && x.ops.Load()&(1<<op) != 0 {
		return nil
	}
	a, own, err := x.query()
	if err != nil {
		return nil // the device has ended
	}
	if a.State == qp.RTS {
		x.ops.Store(own.Ops)
	}
	if op < 32 && own.Ops&(1<<op) != 0 {
		return nil
	}
	return fmt.Errorf("iWARP: %w", &reason.Error{Detail: reason.Detail{Reason: reason.RDMAPExtension, Expected: uint64(qp.RC), Found: uint64(op)}, Cause: errors.ErrUnsupported})
}

// Modify implements provider.QP.
func (x *pair) Modify(mask qp.Mask, a *qp.Attr) error {
	if err := x.Gone(); err != nil {
		return err
	}
	if mask&qp.MaskState != 0 && a.State == qp.Reset {
		x.ops.Store(0) // the next connection may support others
	}
	if mask&qp.MaskPathMTU != 0 && uapi.MTUNumber(a.PathMTU) == 0 {
		return qp.Validate(mask, a)
	}
	q := uapi.ModifyQP{QPHandle: x.handle, AttrMask: uint32(mask), QPAttrs: uapi.QPAttrsOf(a)}
	if a.EnSQDNotify {
		q.SQD = 1
	}
	var own uapi.OwnPath
	if mask&qp.MaskAV != 0 {
		own.UDPPort = a.Path.Dst.Port()
		h := x.d.ah(&a.Path)
		q.Dest = h.Dest()
	}
	_, err := x.d.command(uapi.CmdModifyQP, uapi.Bytes(&q), uapi.Bytes(&own), 0, 0)
	return err
}

// Query implements provider.QP. A queue pair whose device has ended is in RESET.
func (x *pair) Query() qp.Attr {
	a, _, _ := x.query()
	return a
}

// PathNumber returns how the daemon's packets reach the peer, numbered as in package adapter; 0 if
// that is not known.
func (x *pair) PathNumber() uint32 {
	_, own, _ := x.query()
	return own.Path
}

func (x *pair) query() (a qp.Attr, own uapi.OwnQPResp, err error) {
	n := uapi.Size[uapi.QueryQPResp]()
	b, err := x.d.command(uapi.CmdQueryQP, uapi.Bytes(&uapi.QueryQP{QPHandle: x.handle}), nil, n, uapi.Size[uapi.OwnQPResp]())
	if err != nil {
		return a, own, err
	}
	r, _ := uapi.Parse[uapi.QueryQPResp](b)
	own, _ = uapi.Parse[uapi.OwnQPResp](b[n:])
	a = r.Attr()
	a.SQDraining = r.SQD != 0
	return a, own, nil
}

func (x *pair) multicast(number uint32, group netip.Addr) error {
	if err := x.Gone(); err != nil {
		return err
	}
	return x.d.do(number, uapi.Bytes(&uapi.Mcast{QPHandle: x.handle, GID: group.WithZone("").As16()}))
}

// AttachMulticast implements provider.QP.
func (x *pair) AttachMulticast(group netip.Addr) error {
	return x.multicast(uapi.CmdAttachMcast, group)
}

// DetachMulticast implements provider.QP.
func (x *pair) DetachMulticast(group netip.Addr) error {
	return x.multicast(uapi.CmdDetachMcast, group)
}

// Destroy implements provider.QP.
func (x *pair) Destroy() error {
	did, err := x.destroy(uapi.CmdDestroyQP, uapi.Size[uapi.DestroyResp]())
	if did {
		x.d.disown(x.number)
	}
	return err
}
