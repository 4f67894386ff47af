package msg

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"softrdma/rdmacm"
	"softrdma/verbs"
)

// Connect makes an endpoint that sends to the worker with an address. The devices of both workers
// are of one protocol. The error matches ErrAddress, ErrVersion or ErrStale if the address is
// at fault; others are those of rdmacm.
func (w *Worker) Connect(ctx context.Context, to []byte) (*Endpoint, error) {
	a, err := parseAddress(to)
	if err != nil {
		return nil, err
	}
	request := greeting{hello: hello{a.worker, w.address.accepts}, how: toWorker}
	e, err := w.dial(ctx, a.listener.String(), a.udp, request.bytes())
	return e, refusal(err, a)
}

// dial asks for a connection.
func (w *Worker) dial(ctx context.Context, to string, udp uint16, request []byte) (*Endpoint, error) {
	ctx, leave, err := w.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	d := rdmacm.Dialer{Device: w.dev, RemoteUDPPort: udp}
	e, err := d.Resolve(ctx, to)
	if err != nil {
		return nil, err
	}
	c, err := w.newConnection(func(cfg verbs.QPConfig) (*verbs.QP, error) { return e.CreateQP(w.pd, cfg) })
	if err == nil {
		c.conn, err = e.Connect(ctx, rdmacm.ConnParam{PrivateData: request})
	}
	if c.conn == nil {
		_ = e.Close() // the first error counts
	}
	if err == nil {
		err = c.greeted()
	}
	return w.begin(c, err)
}

// begin begins to serve a connection that was made, or releases it after an error.
func (w *Worker) begin(c *connection, err error) (*Endpoint, error) {
	if err == nil {
		err = w.start(c)
	}
	if err == nil {
		return &c.endpoint, nil
	}
	c.release()
	if w.context.Err() != nil && !errors.Is(err, ErrClosed) {
		err = fmt.Errorf("%w: %w", ErrClosed, err)
	}
	return nil, err
}

// greeted takes the reply to a request.
func (c *connection) greeted() error {
	g, err := parseGreeting(c.conn.PrivateData())
	if err != nil {
		return err
	}
	c.worker, c.private = g.worker, g.private
	return c.meet(g.accepts)
}

// enter begins a call that Close of the worker ends and waits for. The caller calls leave.
func (w *Worker) enter(ctx context.Context) (_ context.Context, leave func(), err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
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

// refusal names the reason for which a worker rejected a connection.
func refusal(err error, a address) error {
	var rejected *rdmacm.RejectedError
	if !errors.As(err, &rejected) {
		return err
	}
	h, wrong := parseHello(rejected.PrivateData)
	switch {
	case errors.Is(wrong, ErrVersion):
		return fmt.Errorf("%w: %w", wrong, err)
	case wrong != nil:
		return fmt.Errorf("%w: no worker at %v: %w", ErrStale, a.listener, err)
	case h.worker != a.worker:
		return fmt.Errorf("%w: worker %#x at %v, expected %#x: %w", ErrStale, h.worker, a.listener, a.worker, err)
	}
	return err
}

// accept accepts the connections of other workers.
func (w *Worker) accept() {
	defer w.running.Done()
	for {
		r, err := w.listener.Request(w.context)
		if err != nil {
			return
		}
		w.running.Add(1)
		go func() {
			defer w.running.Done()
			from := r.RemoteAddr()
			if err := w.answer(r); err != nil {
				w.refuse(r, from, err)
			}
		}()
	}
}

func (w *Worker) refuse(r *rdmacm.Request, from netip.AddrPort, err error) {
	_ = r.Reject(w.address.hello.bytes()) // the peer's request fails without it, too
	if w.config.Refused != nil && w.context.Err() == nil {
		w.config.Refused(from, err)
	}
}

func (w *Worker) answer(r *rdmacm.Request) error {
	g, err := parseGreeting(r.PrivateData())
	switch {
	case err != nil:
		return err
	case g.how != toWorker:
		return fmt.Errorf("%w: request for a listener, this is the address of a worker", ErrAddress)
	case g.worker != w.address.worker:
		return fmt.Errorf("%w: request for worker %#x, this is %#x", ErrStale, g.worker, w.address.worker)
	}
	_, err = w.admit(w.context, r, g, nil)
	return err
}

// admit accepts a connection.
func (w *Worker) admit(ctx context.Context, r *rdmacm.Request, g greeting, private []byte) (*Endpoint, error) {
	c, err := w.newConnection(func(cfg verbs.QPConfig) (*verbs.QP, error) { return r.CreateQP(w.pd, cfg) })
	if err == nil {
		err = c.meet(g.accepts)
	}
	if c.private = g.private; g.how == toListener {
		c.worker = g.worker
	}
	if err == nil {
		reply := greeting{hello: w.address.hello, private: private}
		c.conn, err = r.Accept(ctx, rdmacm.ConnParam{PrivateData: reply.bytes()})
	}
	return w.begin(c, err)
}

// start begins to serve a connection.
func (w *Worker) start(c *connection) error {
	w.mu.Lock()
	defer w.unlock()
	if w.closed {
		return ErrClosed
	}
	w.conns = append(w.conns, c)
	c.started = true
	for i := range c.early {
		c.complete(&c.early[i])
	}
	c.early = nil
	w.flush()
	w.running.Add(1)
	go c.watch(w.context)
	w.event()
	return nil
}
