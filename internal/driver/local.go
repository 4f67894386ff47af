package driver

import (
	"context"
	"iter"

	"softrdma/internal/adapter"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
)

// Local is an adapter of this process. Its completion queues and shared receive
// queues are the adapter's own.
type Local struct{ *adapter.Device }

// AllocPD implements Device.
func (d Local) AllocPD() (PD, error) {
	p, err := d.Device.AllocPD()
	if err != nil {
		return nil, err
	}
	return localPD{p}, nil
}

// CreateCQ implements Device.
func (d Local) CreateCQ(depth int, ch Channel, owner any) (CQ, error) {
	c, err := d.Device.CreateCQ(depth, ch.(localChannel).Channel)
	if err != nil {
		return nil, err
	}
	c.Owner = owner
	return c, nil
}

// CreateChannel implements Device.
func (d Local) CreateChannel() (Channel, error) {
	h, err := d.Device.CreateChannel()
	if err != nil {
		return nil, err
	}
	return localChannel{h}, nil
}

// Counters implements Device.
func (d Local) Counters() iter.Seq2[reason.Reason, uint64] { return d.Trace.Counters(0) }

// NextEvent implements Device.
func (d Local) NextEvent(ctx context.Context) (Event, error) {
	a, err := d.Device.NextEvent(ctx)
	if err != nil {
		return Event{}, err
	}
	e := Event{Type: a.Type, Detail: a.Detail}
	switch x := a.Element.(type) {
	case *adapter.QP:
		e.Owner = x.Owner
	case *adapter.CQ:
		e.Owner = x.Owner
	case *adapter.SRQ:
		e.Owner = x.Owner
	}
	return e, nil
}

type localChannel struct{ *adapter.Channel }

func (h localChannel) Next(ctx context.Context) (any, error) {
	c, err := h.Channel.Next(ctx)
	if err != nil {
		return nil, err
	}
	return c.Owner, nil
}

type localPD struct{ *adapter.PD }

func regionOf(r *memory.Region, err error) (Region, error) {
	if err != nil {
		return Region{}, err
	}
	return Region{Key: r.Key, Base: r.Base, Len: r.Len(), Of: r}, nil
}

func (p localPD) Register(b Buffer, base uint64, access qp.Access) (Region, error) {
	return regionOf(p.PD.Register(b.Mem, base, access))
}

func (p localPD) Reregister(old Region, b Buffer, base uint64, access qp.Access) (Region, error) {
	return regionOf(p.PD.Reregister(old.Of.(*memory.Region), b.Mem, base, access))
}

func (p localPD) Deregister(r Region) error { return p.PD.Deregister(r.Of.(*memory.Region)) }

func (p localPD) CreateSRQ(depth, maxSGE, limit int, owner any) (SRQ, error) {
	s, err := p.PD.CreateSRQ(depth, maxSGE)
	if err != nil {
		return nil, err
	}
	s.Owner = owner
	s.StartLimit(limit)
	return s, nil
}

func (p localPD) CreateQP(c *QPConfig, owner any) (QP, error) {
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
	return localQP{q}, nil
}

type localQP struct{ *adapter.QP }

func (q localQP) Number() uint32            { return q.QPN }
func (q localQP) SendRing() *queue.SendRing { return q.SQ }
func (q localQP) RecvRing() *queue.RecvRing { return q.Recv }

var (
	_ Device = Local{}
	_ CQ     = (*adapter.CQ)(nil)
	_ SRQ    = (*adapter.SRQ)(nil)
)
