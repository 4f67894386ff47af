// Package local is the provider of devices and connections of this process: it
// gives an adapter and a connection manager the shape of package provider.
//
// It owns nothing and adds no rules. Calls that rules of faults make fail do so here.
package local

import (
	"context"
	"iter"
	"net/netip"

	"softrdma/internal/adapter"
	"softrdma/internal/memory"
	"softrdma/internal/provider"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
)

// A Device is an adapter of this process. Its completion queues and shared
// receive queues are the adapter's own.
type Device struct{ *adapter.Device }

// AllocPD implements provider.Device.
func (d Device) AllocPD() (provider.PD, error) {
	if err := d.FailCall("ibv_alloc_pd"); err != nil {
		return nil, err
	}
	p, err := d.Device.AllocPD()
	if err != nil {
		return nil, err
	}
	return domain{p}, nil
}

// CreateCQ implements provider.Device.
func (d Device) CreateCQ(depth int, ch provider.CompletionChannel, owner any) (provider.CQ, error) {
	if err := d.FailCall("ibv_create_cq"); err != nil {
		return nil, err
	}
	c, err := d.Device.CreateCQ(depth, ch.(channel).Channel)
	if err != nil {
		return nil, err
	}
	c.Owner = owner
	return c, nil
}

// CreateCompletionChannel implements provider.Device.
func (d Device) CreateCompletionChannel() (provider.CompletionChannel, error) {
	if err := d.FailCall("ibv_create_comp_channel"); err != nil {
		return nil, err
	}
	h, err := d.Device.CreateChannel()
	if err != nil {
		return nil, err
	}
	return channel{h}, nil
}

// Counters implements provider.Device.
func (d Device) Counters() iter.Seq2[reason.Reason, uint64] { return d.Trace.Counters(0) }

// Traffic implements provider.Device.
func (d Device) Traffic() (sent, received uint64) {
	t := d.Device.Traffic()
	return t.Sent, t.Received
}

// NextEvent implements provider.Device.
func (d Device) NextEvent(ctx context.Context) (provider.AsyncEvent, error) {
	a, err := d.Device.NextEvent(ctx)
	if err != nil {
		return provider.AsyncEvent{}, err
	}
	return provider.AsyncEvent{Type: provider.EventType(a.Type), Owner: Owner(&a), Detail: a.Detail}, nil
}

// Owner returns the owner of the object that an event concerns, nil for events of the
// device or its port.
func Owner(e *adapter.AsyncEvent) any {
	switch x := e.Element.(type) {
	case *adapter.QP:
		return x.Owner
	case *adapter.CQ:
		return x.Owner
	case *adapter.SRQ:
		return x.Owner
	}
	return nil
}

type channel struct{ *adapter.Channel }

func (h channel) Next(ctx context.Context) (any, error) {
	c, err := h.Channel.Next(ctx)
	if err != nil {
		return nil, err
	}
	return c.Owner, nil
}

// AdapterChannel returns the adapter's object of a completion channel of CreateCompletionChannel.
func AdapterChannel(h provider.CompletionChannel) *adapter.Channel { return h.(channel).Channel }

type domain struct{ *adapter.PD }

// FailCall is that of the domain's device.
func (p domain) FailCall(name string) error { return p.Device().FailCall(name) }

func regionOf(r *memory.Region, err error) (provider.Region, error) {
	if err != nil {
		return provider.Region{}, err
	}
	return provider.Region{Key: r.Key, Base: r.Base, Len: r.Len(), Of: r}, nil
}

func (p domain) Register(b provider.Buffer, base uint64, access qp.Access) (provider.Region, error) {
	if err := p.FailCall("ibv_reg_mr"); err != nil {
		return provider.Region{}, err
	}
	return regionOf(p.PD.RegisterSegment(b.Mem, base, access, b.Segment))
}

func (p domain) Reregister(old provider.Region, b provider.Buffer, base uint64, access qp.Access) (provider.Region, error) {
	if err := p.FailCall("ibv_rereg_mr"); err != nil {
		return provider.Region{}, err
	}
	return regionOf(p.PD.Reregister(old.Of.(*memory.Region), b.Mem, base, access, b.Segment))
}

func (p domain) Deregister(r provider.Region) error {
	if err := p.FailCall("ibv_dereg_mr"); err != nil {
		return err
	}
	return p.PD.Deregister(r.Of.(*memory.Region))
}

func (p domain) AllocWindow(kind memory.Kind) (uint32, error) {
	if err := p.FailCall("ibv_alloc_mw"); err != nil {
		return 0, err
	}
	return p.PD.AllocWindow(kind)
}

func (p domain) CreateAH(path qp.Path) (uint32, error) {
	if err := p.FailCall("ibv_create_ah"); err != nil {
		return 0, err
	}
	return p.PD.CreateAH(path)
}

func (p domain) CreateSRQ(depth, maxSGE, limit int, owner any) (provider.SRQ, error) {
	if err := p.FailCall("ibv_create_srq"); err != nil {
		return nil, err
	}
	s, err := p.PD.CreateSRQ(depth, maxSGE)
	if err != nil {
		return nil, err
	}
	s.Owner = owner
	s.StartLimit(limit)
	return s, nil
}

func (p domain) CreateQP(c *provider.QPConfig, owner any) (provider.QP, error) {
	if err := p.FailCall("ibv_create_qp"); err != nil {
		return nil, err
	}
	a := &adapter.QPConfig{
		Type: c.Type, SendCQ: c.SendCQ.(*adapter.CQ), RecvCQ: c.RecvCQ.(*adapter.CQ), SignalAll: c.SignalAll,
		SendDepth: c.SendDepth, SendSGE: c.SendSGE, RecvDepth: c.RecvDepth, RecvSGE: c.RecvSGE, Inline: c.Inline,
		Control: c.Control, Recovery: c.Recovery, PeerTimeout: c.PeerTimeout, PeerProbe: c.PeerProbe,
	}
	if c.SRQ != nil {
		a.SRQ = c.SRQ.(*adapter.SRQ)
	}
	q, err := p.PD.CreateQP(a)
	if err != nil {
		return nil, err
	}
	q.Owner = owner
	return pair{q}, nil
}

// OpenXRCD implements provider.Device.
func (d Device) OpenXRCD() (provider.XRCD, error) {
	if err := d.FailCall("ibv_open_xrcd"); err != nil {
		return nil, err
	}
	x, err := d.Device.OpenXRCD()
	if err != nil {
		return nil, err
	}
	return xrcDomain{x}, nil
}

type xrcDomain struct{ *adapter.XRCD }

func (x xrcDomain) CreateSRQ(pd provider.PD, cq provider.CQ, depth, maxSGE, limit int, owner any) (provider.SRQ, uint32, error) {
	s, err := pd.(domain).PD.CreateXRCSRQ(x.XRCD, cq.(*adapter.CQ), depth, maxSGE)
	if err != nil {
		return nil, 0, err
	}
	s.Owner = owner
	s.StartLimit(limit)
	return s, s.Number, nil
}

func (x xrcDomain) CreateTarget(owner any) (provider.QP, error) {
	q, err := x.XRCD.CreateTarget()
	if err != nil {
		return nil, err
	}
	q.Owner = owner
	return pair{q}, nil
}

type pair struct{ *adapter.QP }

func (q pair) Number() uint32            { return q.QPN }
func (q pair) SendRing() *queue.SendRing { return q.SQ }
func (q pair) RecvRing() *queue.RecvRing { return q.Recv }

func (q pair) Modify(mask qp.Mask, a *qp.Attr) error {
	if err := q.Device().FailCall("ibv_modify_qp"); err != nil {
		return err
	}
	return q.QP.Modify(mask, a)
}

func (q pair) AttachMulticast(group netip.Addr) error {
	if err := q.Device().FailCall("ibv_attach_mcast"); err != nil {
		return err
	}
	return q.QP.AttachMulticast(group)
}

var (
	_ provider.Device = Device{}
	_ provider.CQ     = (*adapter.CQ)(nil)
	_ provider.SRQ    = (*adapter.SRQ)(nil)
)
