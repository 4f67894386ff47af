package msg

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"softrdma/msg/internal/format"
	"softrdma/rdmacm"
)

// How many bytes of private data the messages of a connection have room for.
const (
	MaxPrivateRequest = 16  // Dial
	MaxPrivateAccept  = 128 // ConnRequest.Accept
	MaxPrivateReject  = 96  // ConnRequest.Reject
)

// ErrPrivateData is matched by the error of a call with too much private data.
var ErrPrivateData = rdmacm.ErrPrivateData

// ErrNoListener is matched by the error of Dial if no worker listens at the address.
var ErrNoListener = errors.New("no worker listens there")

// A RejectedError is the error of Dial if the other program rejected the request.
type RejectedError struct {
	PrivateData []byte // from ConnRequest.Reject

	err error
}

// Error names the peer.
func (e *RejectedError) Error() string { return "the program rejected the request: " + e.err.Error() }

// Unwrap returns the error of rdmacm.
func (e *RejectedError) Unwrap() error { return e.err }

// Dial makes an endpoint that sends to a worker that listens at "host:port", with up to
// MaxPrivateRequest bytes for the other program. The error is a *RejectedError if that rejects the
// request, and matches ErrNoListener if no worker listens there, and ErrVersion if the other worker
// is of another version. Others are those of rdmacm.
func (w *Worker) Dial(ctx context.Context, to string, private []byte) (*Endpoint, error) {
	if err := format.Fits(private, MaxPrivateRequest); err != nil {
		return nil, err
	}
	ctx, leave, err := w.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	request := format.Greeting{Hello: w.address.Hello, How: format.ToListener, Private: private}
	c, err := w.dial(ctx, w.rail, to, 0, request, 0)
	e, err := w.begin(c, err)
	var rejected *rdmacm.RejectedError
	if !errors.As(err, &rejected) {
		return e, err
	}
	g, wrong := format.ParseGreeting(rejected.PrivateData)
	switch {
	case errors.Is(wrong, ErrVersion):
		return nil, fmt.Errorf("%w: %w", wrong, err)
	case wrong != nil:
		return nil, fmt.Errorf("%w: %s: %w", ErrNoListener, to, err)
	case g.How == format.ByProgram:
		return nil, &RejectedError{g.Private, err}
	}
	return nil, fmt.Errorf("%w: a worker at %s refused the request: %w", ErrNoListener, to, err)
}

// A Listener waits for workers that Dial.
type Listener struct {
	w *Worker
	l *rdmacm.Listener
}

// Listen listens on "host:port" for workers that Dial. The host is the address of the worker's
// device, which an empty or unspecified one stands for. Port 0 chooses a free port. Close of the
// worker closes the listener.
func (w *Worker) Listen(addr string) (*Listener, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = w.on.Dev.Addr().Addr().String()
	}
	w.e.Lock()
	defer w.e.Unlock()
	if w.closed {
		return nil, ErrClosed
	}
	l, err := rdmacm.Listen(net.JoinHostPort(host, port), rdmacm.ListenConfig{Device: w.on.Dev})
	if err != nil {
		return nil, err
	}
	x := &Listener{w, l}
	w.listeners[x] = true
	return x, nil
}

// Addr returns the address and port.
func (l *Listener) Addr() netip.AddrPort { return l.l.Addr() }

// Request waits for the next worker that asks for a connection. Requests that are not those of
// workers are refused: see Config.Refused. The error is ErrClosed or the context's.
func (l *Listener) Request(ctx context.Context) (*ConnRequest, error) {
	for {
		r, err := l.l.Request(ctx)
		if errors.Is(err, rdmacm.ErrClosed) {
			return nil, ErrClosed
		} else if err != nil {
			return nil, err
		}
		from := r.RemoteAddr()
		g, err := format.ParseGreeting(r.PrivateData())
		if err == nil && g.How != format.ToListener {
			err = fmt.Errorf("%w: request for worker %#x, this is a listener", ErrStale, g.Worker)
		}
		if err == nil {
			return &ConnRequest{l.w, r, from, g}, nil
		}
		l.w.refuse(r, from, err)
	}
}

// Accept accepts the next request, without private data. Requests that fail meanwhile are skipped.
// The error is ErrClosed or the context's.
func (l *Listener) Accept(ctx context.Context) (*Endpoint, error) {
	for {
		r, err := l.Request(ctx)
		if err != nil {
			return nil, err
		}
		if e, err := r.Accept(ctx, nil); err == nil || errors.Is(err, ErrClosed) || ctx.Err() != nil {
			return e, err
		}
	}
}

// Close stops listening. Waiting calls return ErrClosed, and waiting requests are rejected.
// Connections continue.
func (l *Listener) Close() error {
	l.w.e.Lock()
	delete(l.w.listeners, l)
	l.w.e.Unlock()
	return l.l.Close()
}

// A ConnRequest is a worker that asks for a connection. The program accepts or rejects it.
type ConnRequest struct {
	w    *Worker
	r    *rdmacm.Request
	from netip.AddrPort
	g    format.Greeting
}

// RemoteAddr returns the address and port of the other worker.
func (r *ConnRequest) RemoteAddr() netip.AddrPort { return r.from }

// PrivateData returns the bytes that Dial was called with.
func (r *ConnRequest) PrivateData() []byte { return r.g.Private }

// Accept accepts the request with up to MaxPrivateAccept bytes for the other program, and returns
// the endpoint to it. If the worker closes meanwhile, the error matches ErrClosed.
func (r *ConnRequest) Accept(ctx context.Context, private []byte) (*Endpoint, error) {
	if err := format.Fits(private, MaxPrivateAccept); err != nil {
		return nil, err
	}
	ctx, leave, err := r.w.enter(ctx)
	if err != nil {
		_ = r.Reject(nil) // the worker has closed
		return nil, err
	}
	defer leave()
	e, err := r.w.admit(ctx, r.r, r.g, private)
	if err != nil {
		_ = r.Reject(nil) // it may be void
	}
	return e, err
}

// Reject rejects the request with up to MaxPrivateReject bytes for the other program.
func (r *ConnRequest) Reject(private []byte) error {
	if err := format.Fits(private, MaxPrivateReject); err != nil {
		return err
	}
	g := format.Greeting{Hello: r.w.address.Hello, How: format.ByProgram, Private: private}
	return r.r.Reject(g.Bytes())
}

// PrivateData returns the bytes that the other program sent when the connection was made: with Dial
// or ConnRequest.Accept.
func (e *Endpoint) PrivateData() []byte { return e.c.private }

// RemoteAddr returns the address and port of the other worker.
func (e *Endpoint) RemoteAddr() netip.AddrPort { return e.c.CM.RemoteAddr() }
