package msg

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"softrdma/internal/carrier"
	"softrdma/msg/internal/format"
	"softrdma/msg/internal/repair"
	"softrdma/rdmacm"
)

// Connect makes an endpoint that sends to the worker with an address, on all devices that are of one
// protocol at both workers. On each it waits for Config.PeerTimeout at most. The error matches
// ErrAddress, ErrVersion or ErrStale if the address is at fault, and ErrPath if no devices are of one
// protocol; others are those of rdmacm.
func (w *Worker) Connect(ctx context.Context, to []byte) (*Endpoint, error) {
	a, err := format.ParseAddress(to)
	if err != nil {
		return nil, err
	}
	ctx, leave, err := w.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	pairs := format.Pairs(&w.address, &a)
	switch {
	case len(pairs) == 0:
		return nil, fmt.Errorf("%w: %v here", ErrPath, w.on.Dev.Protocol())
	case len(w.rails) > 1 || len(a.Rails) > 1:
		return w.connectRails(ctx, &a, pairs)
	}
	ctx, cancel := context.WithTimeout(ctx, w.config.PeerTimeout)
	defer cancel()
	request := format.Greeting{Hello: format.Hello{Worker: a.Worker, Accepts: w.address.Accepts}, How: format.ToWorker}
	c, err := w.dial(ctx, w.rail, a.Rails[0].Listener.String(), a.Rails[0].UDP, request, 0)
	e, err := w.begin(c, err)
	return e, format.Refusal(err, &a, 0)
}

// dial asks for a connection. After an error the caller discards what there is of it, before it leaves.
func (w *Worker) dial(ctx context.Context, r *rail, to string, udp uint16, request format.Greeting, extra int) (*connection, error) {
	d := rdmacm.Dialer{Device: r.on.Dev, RemoteUDPPort: udp, ResponseTimeout: repair.ResponseTimeout(w.config.PeerTimeout, r.on.Dev.Protocol())}
	e, err := d.Resolve(ctx, to)
	if err != nil {
		return nil, err
	}
	c, err := w.newConnection(r, extra, e.CreateQP)
	if err == nil {
		c.CM, err = e.Connect(ctx, rdmacm.ConnParam{PrivateData: request.Bytes(), ResponderResources: carrier.ReadDepth, InitiatorDepth: carrier.ReadDepth})
	}
	if c.CM == nil {
		_ = e.Close() // the first error counts
	}
	if err == nil {
		err = c.greeted()
	}
	return c, err
}

// begin begins to serve a connection that was made, or discards it after an error.
func (w *Worker) begin(c *connection, err error) (*Endpoint, error) {
	if err == nil {
		err = w.start(c)
	}
	if err == nil {
		return &c.endpoint, nil
	}
	if c != nil {
		c.Discard()
	}
	if w.context.Err() != nil && !errors.Is(err, ErrClosed) {
		err = fmt.Errorf("%w: %w", ErrClosed, err)
	}
	return nil, err
}

// greeted takes the reply to a request.
func (c *connection) greeted() error {
	g, err := format.ParseGreeting(c.CM.PrivateData())
	if err != nil {
		return err
	}
	c.worker, c.private = g.Worker, g.Private
	return c.meet(g.Accepts)
}

// enter begins a call that Close of the worker ends and waits for. The caller calls leave.
func (w *Worker) enter(ctx context.Context) (_ context.Context, leave func(), err error) {
	w.e.Lock()
	defer w.e.Unlock()
	if w.closed {
		return nil, nil, ErrClosed
	}
	w.running.Add(1)
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(w.context, func() { cancel(ErrClosed) })
	return ctx, func() {
		stop()
		cancel(nil)
		w.running.Done()
	}, nil
}

// accept accepts the connections of other workers on a device.
func (w *Worker) accept(on *rail) {
	for {
		r, err := on.listener.Request(w.context)
		if err != nil {
			return
		}
		w.running.Go(func() {
			from := r.RemoteAddr()
			if err := w.answer(on, r); err != nil {
				w.refuse(r, from, err)
			}
		})
	}
}

func (w *Worker) refuse(r *rdmacm.Request, from netip.AddrPort, err error) {
	_ = r.Reject(w.address.Hello.Bytes()) // the peer's request fails without it, too
	if w.config.Refused != nil && w.context.Err() == nil {
		w.config.Refused(from, err)
	}
}

func (w *Worker) answer(on *rail, r *rdmacm.Request) error {
	g, err := format.ParseGreeting(r.PrivateData())
	switch {
	case err != nil:
		return err
	case g.How == format.ToListener:
		return fmt.Errorf("%w: request for a listener, this is the address of a worker", ErrAddress)
	case g.Worker != w.address.Worker:
		return fmt.Errorf("%w: request for worker %#x, this is %#x", ErrStale, g.Worker, w.address.Worker)
	}
	if g.How == format.ToGroup {
		return w.admitRail(on, r, g)
	}
	_, err = w.admit(w.context, r, g, nil)
	return err
}

// admit accepts a connection on the worker's first device.
func (w *Worker) admit(ctx context.Context, r *rdmacm.Request, g format.Greeting, private []byte) (*Endpoint, error) {
	c, err := w.accepted(ctx, w.rail, r, g, private, 0)
	if c.private = g.Private; g.How == format.ToListener {
		c.worker = g.Worker
	}
	return w.begin(c, err)
}

// accepted makes the connection of a request. After an error the caller discards what there is of it.
func (w *Worker) accepted(ctx context.Context, on *rail, r *rdmacm.Request, g format.Greeting, private []byte, extra int) (*connection, error) {
	c, err := w.newConnection(on, extra, r.CreateQP)
	if err == nil {
		err = c.meet(g.Accepts)
	}
	if err == nil {
		reply := format.Greeting{Hello: w.address.Hello, Private: private}
		c.CM, err = r.Accept(ctx, rdmacm.ConnParam{PrivateData: reply.Bytes()})
	}
	return c, err
}

// start begins to serve a connection, which is the only one to its peer.
func (w *Worker) start(c *connection) error {
	w.e.Lock()
	defer w.unlock()
	if w.closed {
		return ErrClosed
	}
	c.peer = w.machine.NewPeer(c.takes, 1)
	c.peer.Context = c
	w.conns = append(w.conns, c)
	c.offerRing()
	c.serve()
	return nil
}

// serve begins to take completions. The caller holds the lock.
func (c *connection) serve() {
	c.Start(c.CM, nil)
	c.w.event()
}
