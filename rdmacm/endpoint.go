package rdmacm

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"softrdma/internal/reason"
	"softrdma/verbs"
)

// An Endpoint is a client's end before it is connected. Its device is known. The
// program must close it unless Connect succeeds.
type Endpoint struct {
	end *end
	cfg verbs.QPConfig // for Connect, if CreateQP was not called

	op     sync.Mutex // held by the waiting call
	routed bool
	conn   *Conn // the resulting connection
}

// Device returns the device.
func (e *Endpoint) Device() *verbs.Device { return e.end.id.Device() }

// PD returns the endpoint's own protection domain. The first call makes it, and
// Close of the endpoint or connection deallocates it.
func (e *Endpoint) PD() (*verbs.PD, error) { return e.end.id.PD() }

// LocalAddr returns the local address and port.
func (e *Endpoint) LocalAddr() netip.AddrPort { return e.end.id.LocalAddr() }

// RemoteAddr returns the peer's address and port.
func (e *Endpoint) RemoteAddr() netip.AddrPort { return e.end.id.RemoteAddr() }

// CreateQP makes the queue pair, in INIT, where receives can be posted; in
// PortSpaceUDP in RTS. A nil pd means the endpoint's own. Cfg is like Dialer.QP.
func (e *Endpoint) CreateQP(pd *verbs.PD, cfg verbs.QPConfig) (*verbs.QP, error) {
	return e.end.id.CreateQP(pd, cfg)
}

// SendCQ returns the completion queue of sends that CreateQP made, or nil if the configuration
// had one.
func (e *Endpoint) SendCQ() *verbs.CQ { return e.end.id.SendCQ() }

// RecvCQ returns the completion queue of receives that CreateQP made, or nil if the
// configuration had one.
func (e *Endpoint) RecvCQ() *verbs.CQ { return e.end.id.RecvCQ() }

// Connect connects the queue pair and waits for the reply. If CreateQP was not called it makes
// the queue pair from Dialer.QP. The connection then owns all objects of the endpoint. After
// an error the endpoint can only be closed. If the context ended, a late reply is rejected.
func (e *Endpoint) Connect(ctx context.Context, p ConnParam) (*Conn, error) {
	e.op.Lock()
	defer e.op.Unlock()
	id := e.end.id
	if id.datagram() {
		return nil, reason.NotSupported("connect to %v: expected a connected service, found datagrams: use Lookup", id.RemoteAddr())
	}
	if id.QP() == nil {
		if _, err := id.CreateQP(nil, e.cfg); err != nil {
			return nil, err
		}
	}
	v, err := e.request(ctx, &p)
	if err != nil {
		return nil, err
	}
	e.conn = &Conn{end: e.end, param: v.Conn}
	return e.conn, nil
}

// request sends the request or lookup and waits for the answer.
func (e *Endpoint) request(ctx context.Context, p *ConnParam) (Event, error) {
	id := e.end.id
	if ctx.Err() != nil {
		return Event{}, fmt.Errorf("connect to %v: %w", id.RemoteAddr(), waitEnded(ctx))
	}
	if !e.routed {
		if err := e.route(ctx); err != nil {
			return Event{}, err
		}
		e.routed = true
	}
	if err := id.Connect(p); err != nil {
		return Event{}, err
	}
	v, err := e.end.wait(ctx, "the reply of")
	if err == nil && v.Type != EventEstablished {
		err = fmt.Errorf("connect to %v: expected %v, found %v", id.RemoteAddr(), EventEstablished, v.Type)
	}
	if err != nil {
		id.toErr()
		id.leave()
	}
	return v, err
}

// route finds the path to the peer. Where that asks the peer or an administrator it may take longer than the context
// lasts, and ends by itself.
func (e *Endpoint) route(ctx context.Context) error {
	begun := make(chan error, 1)
	go func() { begun <- e.end.id.ResolveRoute() }()
	select {
	case err := <-begun:
		if err != nil {
			return err
		}
	case <-ctx.Done():
	}
	_, err := e.end.wait(ctx, "the route to")
	return err
}

// Lookup asks the peer for its datagram queue pair (PortSpaceUDP), once.
func (e *Endpoint) Lookup(ctx context.Context, private []byte) (UDParam, error) {
	e.op.Lock()
	defer e.op.Unlock()
	if !e.end.id.datagram() {
		return UDParam{}, reason.NotSupported("lookup %v: expected PortSpaceUDP, found %v", e.RemoteAddr(), e.end.id.PortSpace())
	}
	v, err := e.request(ctx, &ConnParam{PrivateData: private})
	return v.UD, err
}

// JoinMulticast joins a group with the endpoint's queue pair (PortSpaceUDP), before
// any Lookup. The result says where to send. LeaveMulticast or Close leaves the
// group. On an InfiniBand fabric the membership also ends when the port goes down or has
// another LID, partition or subnet manager, of which Device.NextEvent tells: then leave the group
// and join it again.
func (e *Endpoint) JoinMulticast(ctx context.Context, group netip.Addr) (UDParam, error) {
	return e.join(ctx, group, e.end.id.JoinMulticast)
}

// JoinMulticastToSend is JoinMulticast for an endpoint that only sends to the group.
func (e *Endpoint) JoinMulticastToSend(ctx context.Context, group netip.Addr) (UDParam, error) {
	return e.join(ctx, group, e.end.id.JoinMulticastToSend)
}

func (e *Endpoint) join(ctx context.Context, group netip.Addr, begin func(netip.Addr, any) error) (UDParam, error) {
	e.op.Lock()
	defer e.op.Unlock()
	join := new(int) // distinguishes this join's events from those of earlier ones
	if err := begin(group, join); err != nil {
		return UDParam{}, err
	}
	v, err := e.end.wait(ctx, "the group's address for")
	for v.Type == EventMulticastError && v.Context != any(join) { // a membership that has ended
		v, err = e.end.wait(ctx, "the group's address for")
	}
	if err == nil && v.Type != EventMulticastJoin {
		err = fmt.Errorf("join multicast group %v: expected %v, found %v", group, EventMulticastJoin, v.Type)
	}
	if err != nil {
		return UDParam{}, errors.Join(err, e.end.id.LeaveMulticast(group))
	}
	return v.UD, nil
}

// LeaveMulticast leaves a group.
func (e *Endpoint) LeaveMulticast(group netip.Addr) error { return e.end.id.LeaveMulticast(group) }

// Close destroys the endpoint and its queue pair. After a successful Connect it
// does nothing.
func (e *Endpoint) Close() error {
	e.op.Lock()
	defer e.op.Unlock()
	if e.conn != nil {
		return nil
	}
	return events.release(e.end.id)
}
