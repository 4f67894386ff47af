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

// An Endpoint is the client's end before it is connected: its device is known.
// It must be closed if it is not connected.
type Endpoint struct {
	end *end
	cfg verbs.QPConfig // of Connect, where CreateQP was not called

	op     sync.Mutex // one that waits at a time
	routed bool
	conn   *Conn // that it has become
}

// Device is the device.
func (e *Endpoint) Device() *verbs.Device { return e.end.id.Device() }

// PD is the endpoint's own protection domain, made at the first call and
// deallocated with the endpoint or connection.
func (e *Endpoint) PD() (*verbs.PD, error) { return e.end.id.PD() }

// LocalAddr is the local address and port.
func (e *Endpoint) LocalAddr() netip.AddrPort { return e.end.id.LocalAddr() }

// RemoteAddr is the peer's address and port.
func (e *Endpoint) RemoteAddr() netip.AddrPort { return e.end.id.RemoteAddr() }

// CreateQP makes the queue pair in INIT: receives can be posted. In PortSpaceUDP
// it is in RTS. A nil pd takes the endpoint's own; cfg as Dialer.QP.
func (e *Endpoint) CreateQP(pd *verbs.PD, cfg verbs.QPConfig) (*verbs.QP, error) {
	return e.end.id.CreateQP(pd, cfg)
}

// SendCQ is the completion queue of its sends, where CreateQP made it; else nil,
// as RecvCQ.
func (e *Endpoint) SendCQ() *verbs.CQ { return e.end.id.SendCQ() }

// RecvCQ is the completion queue of its receives.
func (e *Endpoint) RecvCQ() *verbs.CQ { return e.end.id.RecvCQ() }

// Connect connects the queue pair, which it makes of Dialer.QP if CreateQP was
// not called, and gives it to the connection. After an error the endpoint can
// only be closed: where the context ended, a late reply is rejected.
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
	if err := ctx.Err(); err != nil {
		return Event{}, fmt.Errorf("connect to %v: %w", id.RemoteAddr(), err)
	}
	if !e.routed {
		if err := id.ResolveRoute(); err != nil {
			return Event{}, err
		}
		if _, err := e.end.wait(ctx, "the route to"); err != nil {
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

// JoinMulticast joins a group with the endpoint's queue pair and tells where to
// send to (PortSpaceUDP), before any Lookup. It is left with LeaveMulticast or Close.
func (e *Endpoint) JoinMulticast(ctx context.Context, group netip.Addr) (UDParam, error) {
	e.op.Lock()
	defer e.op.Unlock()
	if err := e.end.id.JoinMulticast(group, nil); err != nil {
		return UDParam{}, err
	}
	v, err := e.end.wait(ctx, "the group's address for")
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

// Close gives the endpoint with its queue pair up. After Connect it does nothing.
func (e *Endpoint) Close() error {
	e.op.Lock()
	defer e.op.Unlock()
	if e.conn != nil {
		return nil
	}
	return events.release(e.end.id)
}
