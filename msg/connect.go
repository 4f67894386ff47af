package msg

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"softrdma/internal/message"
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
	d := rdmacm.Dialer{Device: w.dev, RemoteUDPPort: a.udp}
	e, err := d.Resolve(ctx, a.listener.String())
	if err != nil {
		return nil, err
	}
	c, err := w.newConnection(a.accepts, func(cfg verbs.QPConfig) (*verbs.QP, error) { return e.CreateQP(w.pd, cfg) })
	if err == nil {
		c.worker = a.worker
		request := hello{a.worker, w.address.accepts}
		c.conn, err = e.Connect(ctx, rdmacm.ConnParam{PrivateData: request.bytes()})
		err = refusal(err, a)
	}
	if c.conn == nil {
		_ = e.Close() // the first error counts
	} else {
		err = w.start(c)
	}
	if err != nil {
		c.release()
		return nil, err
	}
	return &c.endpoint, nil
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
	h, err := parseHello(r.PrivateData())
	if err != nil {
		return err
	}
	if h.worker != w.address.worker {
		return fmt.Errorf("%w: request for worker %#x, this is %#x", ErrStale, h.worker, w.address.worker)
	}
	return w.admit(r, h.accepts)
}

func (w *Worker) admit(r *rdmacm.Request, takes message.Config) error {
	c, err := w.newConnection(takes, func(cfg verbs.QPConfig) (*verbs.QP, error) { return r.CreateQP(w.pd, cfg) })
	if err == nil {
		c.conn, err = r.Accept(w.context, rdmacm.ConnParam{PrivateData: w.address.hello.bytes()})
	}
	if err == nil {
		err = w.start(c)
	}
	if err != nil {
		c.release()
	}
	return err
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
