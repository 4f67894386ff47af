package adapter

import (
	"context"
	"net/netip"
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/trace"
)

// An AsyncEvent is an asynchronous event. Element is the *QP, *CQ or *SRQ that
// it concerns, nil for the device or port.
type AsyncEvent struct {
	Type    machine.Event
	Element any
	Detail  reason.Detail
}

// NextEvent waits for the next asynchronous event.
func (d *Device) NextEvent(ctx context.Context) (AsyncEvent, error) {
	for {
		if e, ok := d.events.Take(); ok {
			return e, nil
		}
		select {
		case <-d.events.Signal():
		case <-ctx.Done():
			return AsyncEvent{}, ctx.Err()
		case <-d.done:
			if e, ok := d.events.Take(); ok {
				return e, nil
			}
			return AsyncEvent{}, ErrClosed
		}
	}
}

// Raise queues an event of the device or one of its objects.
func (d *Device) Raise(t machine.Event, element any, why reason.Detail) {
	d.events.Push(AsyncEvent{t, element, why})
}

// dropEvents forgets the events of an element that is being destroyed.
func (d *Device) dropEvents(element any) {
	d.events.Drop(func(e AsyncEvent) bool { return e.Element == element })
}

// Event implements machine.Host.
func (d *Device) Event(p *machine.Port, e machine.Event, why reason.Detail) {
	d.failures.event(p.QPN, e, why)
	d.Raise(e, d.laneOf(p.QPN).qps[p.QPN], why)
}

// Refuse implements machine.Host.
func (d *Device) Refuse(p *machine.Port, why reason.Detail) {
	d.cfg.Sanitizer.Refused(p.QPN, why)
	l := d.packetLane(p.QPN)
	if why.Reason == reason.PacketSource {
		d.Trace.RefuseSource(p.QPN, why, zoned(p.Attr.Path.Dst, d.Local()), zoned(l.in.Src, d.Local()))
	} else {
		d.Trace.Refuse(p.QPN, why)
	}
	if l != nil {
		d.cfg.Violated.Report(&l.in, why.Reason)
	}
}

// zoned returns an address as people write it: one of the link has the zone of the device's own.
func zoned(e, local qp.Endpoint) netip.Addr {
	if e = qp.OnWire(e); e.Addr().IsLinkLocalUnicast() {
		e = qp.InZone(e, local)
	}
	return e.Addr()
}

// StateChanged implements machine.Host.
func (d *Device) StateChanged(p *machine.Port, from qp.State, why reason.Detail) {
	if q := d.laneOf(p.QPN).qps[p.QPN]; q != nil {
		q.publishState(p.Attr.State)
		q.followErr()
		if why.Reason != reason.None {
			q.listen()
		}
	}
	d.laneOf(p.QPN).recordState(p, from, why)
	if d.Trace.On() {
		d.Trace.Emit(&trace.Event{Kind: trace.State, Time: time.Now(), QPN: p.QPN, Detail: why, From: uint8(from), To: uint8(p.Attr.State)})
	}
}
