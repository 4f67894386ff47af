package rdmacm

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"softrdma/internal/cma"
	"softrdma/internal/reason"
	"softrdma/verbs"
)

// DefaultBacklog is the backlog of a listener that does not set one.
const DefaultBacklog = 1024

// A ListenConfig configures a listener. The zero value suits most programs.
type ListenConfig struct {
	Device    *verbs.Device  // nil: the device of the local address, or every device for an unspecified address
	Protocol  verbs.Protocol // as in Dialer
	TLS       *tls.Config    // as in Dialer; with an unspecified address on every device
	PortSpace PortSpace      // 0 means PortSpaceTCP
	Backlog   int            // requests that may wait in the listener; more are rejected; 0 means DefaultBacklog

	TOS        uint8 // as in Dialer
	AckTimeout uint8

	ResponseTimeout, Retries uint8

	ReuseAddr bool
	AfOnly    bool // [::] accepts only IPv6

	QP    verbs.QPConfig // for queue pairs made by Accept, as in Dialer
	Param ConnParam      // sent to the peer by Accept
}

// A Listener waits for peers.
type Listener struct {
	cfg ListenConfig
	id  *ID

	mu       sync.Mutex
	changed  chan struct{}     // closed and replaced when the fields below change
	requests []*Request        // not yet returned by a call
	pending  map[*Request]bool // answered by Accept, but not yet returned
	settled  []*Request        // the pending ones that are established or have failed
	err      error             // why the listener ended: ErrClosed or another error
}

// Listen listens on "host:port". An empty host means every local address. Port 0
// chooses a free port. The error wraps ErrAddrInUse or ErrAddrNotAvail if the port
// is taken.
func Listen(addr string, cfg ListenConfig) (*Listener, error) {
	list, err := lookup(context.Background(), addr)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", resolveError(addr, err))
	}
	if cfg.PortSpace == 0 {
		cfg.PortSpace = PortSpaceTCP
	}
	if cfg.Backlog == 0 {
		cfg.Backlog = DefaultBacklog
	}
	l := &Listener{cfg: cfg, changed: make(chan struct{}), pending: make(map[*Request]bool)}
	if l.id, err = events.newID(cfg.PortSpace, cfg.QP.Type, l.deliver); err != nil {
		return nil, err
	}
	if err := l.listen(list[0]); err != nil {
		return nil, errors.Join(err, events.release(l.id))
	}
	return l, nil
}

func (l *Listener) listen(at netip.AddrPort) error {
	if l.cfg.Device != nil {
		l.cfg.Protocol = l.cfg.Device.Protocol()
		if err := l.id.UseDevice(l.cfg.Device); err != nil {
			return err
		}
	}
	if err := l.id.secure(l.cfg.TLS, l.cfg.Protocol); err != nil {
		return err
	}
	err := l.id.setOptions(map[Option]int{
		OptionTOS: int(l.cfg.TOS), OptionAckTimeout: int(l.cfg.AckTimeout),
		OptionResponseTimeout: int(l.cfg.ResponseTimeout), OptionRetries: int(l.cfg.Retries),
		OptionProtocol:  int(l.cfg.Protocol),
		OptionReuseAddr: one(l.cfg.ReuseAddr), OptionAfOnly: one(l.cfg.AfOnly),
	})
	if err != nil {
		return err
	}
	if err := l.id.Bind(at); err != nil {
		return err
	}
	return l.id.Listen(cma.MaxBacklog) // the listener has its own count
}

// deliver handles an event of the listening id on the hub's goroutine.
func (l *Listener) deliver(v *Event) {
	switch v.Type {
	case EventConnectRequest:
		if !l.queue(v) {
			_ = v.ID.Destroy() // rejects it; it has no objects yet that could be busy
		}
	case EventDeviceRemoval:
		l.mu.Lock()
		defer l.mu.Unlock()
		l.err = or(l.err, fmt.Errorf("device of listener %v: %w", l.Addr(), verbs.ErrClosed))
		l.change()
	}
}

// queue keeps a new request and reports whether the backlog has room for it.
func (l *Listener) queue(v *Event) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return false
	}
	if n := len(l.requests); n >= l.cfg.Backlog {
		v.ID.c.Decline(reason.Detail{Reason: reason.CMBacklog, Expected: uint64(l.cfg.Backlog), Found: uint64(n) + 1})
		return false
	}
	r := &Request{end: newEnd(), cfg: &l.cfg, param: v.Conn}
	if v.ID.datagram() {
		r.param.PrivateData = v.UD.PrivateData
	}
	r.end.id = v.ID
	if !events.adopt(v.ID, l.id, r.end.deliver) {
		return false
	}
	l.requests = append(l.requests, r)
	l.change()
	return true
}

// change wakes all waiters. The caller holds mu.
func (l *Listener) change() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// Request waits for the next peer that asks for a connection. The error is
// ErrClosed or the context's.
func (l *Listener) Request(ctx context.Context) (*Request, error) {
	for {
		l.mu.Lock()
		r, changed, err := l.next(), l.changed, l.err
		l.mu.Unlock()
		switch {
		case err != nil:
			return nil, l.why(err)
		case r != nil && r.end.peerGone():
			_ = r.release()
		case r != nil:
			return r, nil
		default:
			if err := waitFor(ctx, changed); err != nil {
				return nil, l.why(err)
			}
		}
	}
}

// next removes and returns the oldest request, or nil. The caller holds mu.
func (l *Listener) next() *Request {
	if l.err != nil || len(l.requests) == 0 {
		return nil
	}
	r := l.requests[0]
	l.requests = l.requests[1:]
	return r
}

func (l *Listener) why(err error) error { return fmt.Errorf("listener %v: %w", l.Addr(), err) }

func waitFor(ctx context.Context, changed <-chan struct{}) error {
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return waitEnded(ctx)
	}
}

// Accept waits for the next connection: it makes the queue pair, accepts, and waits until the
// peer is ready. It waits for several peers at the same time, and skips peers that disappear
// or ask for what no queue pair can do. An error that is neither the context's nor ErrClosed
// concerns this side: it rejected one peer because ListenConfig or a limit of the device does
// not allow the queue pair. The listener stays usable.
func (l *Listener) Accept(ctx context.Context) (*Conn, error) {
	for {
		l.mu.Lock()
		err, changed := l.err, l.changed
		done := l.takeSettled()
		var r *Request
		if done == nil && len(l.pending) < l.cfg.Backlog {
			if r = l.next(); r != nil {
				l.pending[r] = true
			}
		}
		l.mu.Unlock()
		switch {
		case err != nil:
			return nil, l.why(err)
		case done != nil:
			if v, ok := done.end.take(); ok && v.Type == EventEstablished {
				return done.conn(), nil
			}
			_ = done.release() // the peer vanished
		case r != nil:
			if err := l.accept(r); err != nil {
				return nil, err
			}
		default:
			if err := waitFor(ctx, changed); err != nil {
				return nil, l.why(err)
			}
		}
	}
}

// accept answers a request. Its result settles it.
func (l *Listener) accept(r *Request) error {
	r.ended = true
	r.end.mu.Lock()
	r.end.watch = func() { l.settle(r) }
	r.end.mu.Unlock()
	err := r.begin(&l.cfg.Param)
	if err == nil && r.end.id.datagram() {
		r.end.deliver(&Event{Type: EventEstablished}) // an answered lookup has no event
	}
	if err == nil {
		return nil
	}
	l.mu.Lock()
	delete(l.pending, r)
	l.change()
	l.mu.Unlock()
	gone := r.Device() == nil && errors.Is(err, verbs.ErrClosed) // of this device only: a listener may have others
	e := r.release()
	if errors.Is(err, ErrRequestVoid) || gone {
		return nil
	}
	return errors.Join(err, e)
}

// settle records that an answered request is established or has failed.
func (l *Listener) settle(r *Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pending[r] {
		l.pending[r] = false
		l.settled = append(l.settled, r)
		l.change()
	}
}

// takeSettled removes and returns the oldest settled request, or nil. The caller holds mu.
func (l *Listener) takeSettled() *Request {
	if l.err != nil || len(l.settled) == 0 {
		return nil
	}
	r := l.settled[0]
	l.settled = l.settled[1:]
	delete(l.pending, r)
	return r
}

// Addr returns the local address and port.
func (l *Listener) Addr() netip.AddrPort { return l.id.LocalAddr() }

// LeftOut returns one error for each address on which a listener on every local
// address could not listen: another process may have the device.
func (l *Listener) LeftOut() []error { return l.id.LeftOut() }

// Close stops listening. Waiting calls return ErrClosed, and the peers of waiting
// requests are rejected.
func (l *Listener) Close() error {
	l.mu.Lock()
	l.err = fmt.Errorf("%w", ErrClosed)
	left := l.requests
	for r := range l.pending {
		left = append(left, r)
	}
	l.requests, l.settled, l.pending = nil, nil, make(map[*Request]bool)
	l.change()
	l.mu.Unlock()
	var err error
	for _, r := range left {
		err = errors.Join(err, r.release())
	}
	return errors.Join(err, events.release(l.id))
}
