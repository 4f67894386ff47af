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

// cmTimeLimit is how long one event of the connection manager may take.
const cmTimeLimit = 80 * time.Second

// A manager connects the queue pairs of an iWARP device, which have no other way.
type manager struct {
	device   *verbs.Device
	ch       *rdmacm.EventChannel
	port     uint16
	listener *rdmacm.ID // a server's
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
	// A guest on a busy machine may stand still for longer than the 10 s of siw.
	return id, errors.Join(id.UseDevice(m.device), id.SetOption(rdmacm.OptionResponseTimeout, 24)) // 69 s
}

// connect connects a queue pair with a peer's: the caller takes it to INIT before, and finds it in RTS.
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

// next waits for an event. That of connections that ended before are not it.
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

// disconnect gives a connection up. One that has ended is no error.
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
