package rping

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"softrdma/rdmacm"
	"softrdma/verbs"
)

// An ownQPConnector is one end of rping -q: the connection manager carries messages
// only, and this program creates the queue pair and moves it through its states. It is
// both a connector and a connection.
type ownQPConnector struct {
	p      *command
	ch     *rdmacm.EventChannel // of this id only
	id     *rdmacm.ID
	qp     *verbs.QP
	asked  bool // a peer asked to connect
	done   chan struct{}
	err    error              // set before done is closed
	ended  chan struct{}      // closed when watch returns
	cancel context.CancelFunc // ends watch
}

// resolveOwnQP returns a client's end.
func resolveOwnQP(ctx context.Context, p *command, dev *verbs.Device) (connector, error) {
	to, err := net.DefaultResolver.LookupNetIP(ctx, "ip", p.addr)
	if err != nil {
		return nil, &rdmacm.ResolveError{Addr: p.serverAddr(), Err: err}
	}
	e := &ownQPConnector{p: p, ch: rdmacm.NewEventChannel()}
	if e.id, err = e.ch.NewID(rdmacm.PortSpaceTCP); err != nil {
		return nil, errors.Join(err, e.ch.Close())
	}
	if err := e.route(ctx, dev, netip.AddrPortFrom(to[0].Unmap(), p.port)); err != nil {
		return nil, errors.Join(err, e.abandon())
	}
	return e, nil
}

func (e *ownQPConnector) route(ctx context.Context, dev *verbs.Device, to netip.AddrPort) error {
	if dev != nil {
		if err := e.id.UseDevice(dev); err != nil {
			return err
		}
	}
	if err := e.id.ResolveAddr(netip.AddrPort{}, to); err != nil {
		return err
	}
	if err := e.expect(ctx, rdmacm.EventAddrResolved); err != nil {
		return err
	}
	if err := e.id.ResolveRoute(); err != nil {
		return err
	}
	return e.expect(ctx, rdmacm.EventRouteResolved)
}

// expect waits for an event of the given type.
func (e *ownQPConnector) expect(ctx context.Context, what rdmacm.EventType) error {
	v, err := e.ch.Next(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("wait for %v: %w", what, err)
	case v.Type == what:
		e.p.debugf("%v", v)
		return nil
	case v.Err != nil:
		return v.Err
	}
	return fmt.Errorf("connection manager: expected %v, found %v", what, v)
}

func (e *ownQPConnector) Device() *verbs.Device      { return e.id.Device() }
func (e *ownQPConnector) RemoteAddr() netip.AddrPort { return e.id.RemoteAddr() }

// CreateQP creates the queue pair in INIT.
func (e *ownQPConnector) CreateQP(pd *verbs.PD, cfg verbs.QPConfig) (qp *verbs.QP, err error) {
	init, err := e.id.InitAttr()
	if err != nil {
		return nil, err
	}
	// InitAttr sets the peer's access rights only when the peer is known.
	init.Access = verbs.RemoteWrite | verbs.RemoteRead
	if e.qp, err = pd.CreateQP(cfg); err != nil {
		return nil, err
	}
	return e.qp, e.qp.ToInit(init)
}

// ready moves the queue pair to RTS when the peer is known.
func (e *ownQPConnector) ready() error {
	rtr, err := e.id.RTRAttr()
	if err != nil {
		return err
	}
	if err := e.qp.ToRTR(rtr); err != nil {
		return err
	}
	rts, err := e.id.RTSAttr()
	if err != nil {
		return err
	}
	return e.qp.ToRTS(rts)
}

// connect connects, or accepts a peer that asked.
func (e *ownQPConnector) connect(ctx context.Context) (connection, error) {
	run := e.call
	if e.asked {
		run = e.accept
	}
	param := e.p.param()
	param.QPN = e.qp.Number()
	if err := run(ctx, &param); err != nil {
		return nil, err
	}
	e.done, e.ended = make(chan struct{}), make(chan struct{})
	ctx, e.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go e.watch(ctx)
	return e, nil
}

func (e *ownQPConnector) call(ctx context.Context, param *rdmacm.ConnParam) error {
	if err := e.id.Connect(param); err != nil {
		return err
	}
	if err := e.expect(ctx, rdmacm.EventConnectResponse); err != nil {
		return err
	}
	if err := e.ready(); err != nil {
		return err
	}
	return e.id.Establish()
}

func (e *ownQPConnector) accept(ctx context.Context, param *rdmacm.ConnParam) error {
	if err := e.ready(); err != nil {
		return err
	}
	if err := e.id.Accept(param); err != nil {
		return err
	}
	return e.expect(ctx, rdmacm.EventEstablished)
}

// watch waits for the end of the connection.
func (e *ownQPConnector) watch(ctx context.Context) {
	defer close(e.ended)
	for {
		v, err := e.ch.Next(ctx)
		if err != nil {
			return
		}
		e.p.debugf("%v", v)
		switch v.Type {
		case rdmacm.EventDisconnected:
			e.err = fmt.Errorf("%w by %v", rdmacm.ErrDisconnected, e.id.RemoteAddr())
		case rdmacm.EventDeviceRemoval:
			e.err = verbs.ErrClosed
		default:
			continue
		}
		e.qp.ToErr()
		close(e.done)
		return
	}
}

func (e *ownQPConnector) Done() <-chan struct{} { return e.done }

func (e *ownQPConnector) Err() error {
	select {
	case <-e.done:
		return e.err
	default:
		return nil
	}
}

// Disconnect ends the connection, or answers the peer's disconnect request.
func (e *ownQPConnector) Disconnect() error {
	return errors.Join(e.qp.ToErr(), e.id.Disconnect())
}

// Close releases the connection.
func (e *ownQPConnector) Close() error {
	e.cancel()
	<-e.ended
	return e.abandon()
}

// abandon releases the end. A peer that asked to connect is rejected.
func (e *ownQPConnector) abandon() error {
	var err error
	if e.qp != nil {
		err = e.qp.Destroy()
	}
	return errors.Join(err, e.id.Destroy(), e.ch.Close())
}

// An ownQPListener is a listener of rping -q.
type ownQPListener struct {
	p  *command
	ch *rdmacm.EventChannel
	id *rdmacm.ID
}

func listenOwnQP(p *command, dev *verbs.Device) (listener, error) {
	l := &ownQPListener{p: p, ch: rdmacm.NewEventChannel()}
	var err error
	if l.id, err = l.ch.NewID(rdmacm.PortSpaceTCP); err != nil {
		return nil, errors.Join(err, l.ch.Close())
	}
	if dev != nil {
		err = l.id.UseDevice(dev)
	}
	if err == nil {
		err = l.id.Bind(p.listenAddr(dev))
	}
	if err == nil {
		err = l.id.Listen(0)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func (l *ownQPListener) Addr() netip.AddrPort { return l.id.LocalAddr() }

// next returns the next client, which gets a separate event channel.
func (l *ownQPListener) next(ctx context.Context) (connector, error) {
	for {
		v, err := l.ch.Next(ctx)
		switch {
		case err != nil:
			return nil, err
		case v.Type != rdmacm.EventConnectRequest:
			l.p.debugf("%v", v)
			continue
		}
		e := &ownQPConnector{p: l.p, ch: rdmacm.NewEventChannel(), id: v.ID, asked: true}
		if err := e.id.Migrate(e.ch); err != nil {
			return nil, errors.Join(err, e.abandon())
		}
		return e, nil
	}
}

func (l *ownQPListener) Close() error {
	if l.id == nil {
		return nil
	}
	err := errors.Join(l.id.Destroy(), l.ch.Close())
	l.id = nil
	return err
}
