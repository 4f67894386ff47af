package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"softrdma/interop/peers/exerciser"
	"softrdma/rdmacm"
	"softrdma/verbs"
)

// cmTimeLimit bounds the wait for one event of the connection manager.
const cmTimeLimit = 80 * time.Second

// A manager connects the queue pairs of an iWARP device, which only the connection manager can
// connect.
type manager struct {
	device   *verbs.Device
	ch       *rdmacm.EventChannel
	port     uint16
	listener *rdmacm.ID // nil for a client
}

func newManager(device *verbs.Device, port int, serves bool) (m *manager, err error) {
	m = &manager{device: device, ch: rdmacm.NewEventChannel(), port: uint16(port + exerciser.CMPortAbove)}
	if !serves {
		return m, nil
	}
	if m.listener, err = m.newID(); err != nil {
		return nil, err
	}
	if err := m.listener.Bind(netip.AddrPortFrom(device.Addr().Addr(), m.port)); err != nil {
		return nil, err
	}
	return m, m.listener.Listen(1)
}

func (m *manager) newID() (*rdmacm.ID, error) {
	id, err := m.ch.NewID(rdmacm.PortSpaceTCP)
	if err != nil {
		return nil, err
	}
	// On a busy machine a guest may pause for longer than siw's timeout of 10 s.
	return id, errors.Join(id.UseDevice(m.device), id.SetOption(rdmacm.OptionResponseTimeout, 24)) // 69 s
}

// connect connects a queue pair with the peer's. It must be in INIT and is in RTS afterwards.
func (m *manager) connect(qp *verbs.QP, peer string) (id *rdmacm.ID, err error) {
	param := &rdmacm.ConnParam{QPN: qp.Number(), ResponderResources: readAtomic, InitiatorDepth: readAtomic}
	if m.listener != nil {
		e, err := m.next(rdmacm.EventConnectRequest)
		if err != nil {
			return nil, err
		}
		id = e.ID
		err = id.Accept(param)
		if err == nil {
			_, err = m.next(rdmacm.EventEstablished)
		}
		return id, err
	}
	addr, err := netip.ParseAddr(peer)
	if err != nil {
		return nil, err
	}
	if id, err = m.newID(); err != nil {
		return nil, err
	}
	for _, step := range []struct {
		do   func() error
		want rdmacm.EventType
	}{
		{func() error { return id.ResolveAddr(netip.AddrPort{}, netip.AddrPortFrom(addr, m.port)) }, rdmacm.EventAddrResolved},
		{id.ResolveRoute, rdmacm.EventRouteResolved},
		{func() error { return id.Connect(param) }, rdmacm.EventEstablished},
	} {
		if err := step.do(); err != nil {
			return id, err
		}
		if _, err := m.next(step.want); err != nil {
			return id, err
		}
	}
	return id, nil
}

// next waits for an event of one type. It skips disconnects of earlier connections.
func (m *manager) next(want rdmacm.EventType) (rdmacm.Event, error) {
	ctx, cancel := context.WithTimeout(context.Background(), cmTimeLimit)
	defer cancel()
	for {
		e, err := m.ch.Next(ctx)
		switch {
		case err != nil:
			return e, fmt.Errorf("waiting for %v: %w", want, err)
		case e.Type == want:
			return e, nil
		case e.Type != rdmacm.EventDisconnected:
			return e, fmt.Errorf("%v where %v was expected: %w", e.Type, want, e.Err)
		}
	}
}

// disconnect closes a connection. It is not an error if the connection has already ended.
func disconnect(id *rdmacm.ID) error {
	_ = id.Disconnect()
	return id.Destroy()
}

func (m *manager) close() error {
	var err error
	if m.listener != nil {
		err = m.listener.Destroy()
	}
	return errors.Join(err, m.ch.Close())
}
