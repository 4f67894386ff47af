package tcp

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"softrdma/internal/link"
	"softrdma/internal/link/trust"
)

// A conns is a link.Streams over the connections of a Network. Goroutines read and write them,
// with buffers between them and the lane.
type conns struct {
	base
	network  Network
	cfg      Config
	security *tls.Config // nil for plain TCP
	linger   time.Duration

	wake  chan struct{} // a token for a Wake or readiness that no Wait has returned for
	ended context.Context
	end   context.CancelFunc
	work  sync.WaitGroup // the goroutines

	waiting atomic.Int32 // length of ready
	mu      sync.Mutex
	ready   []*notice
	open    map[interface{ Close() error }]struct{}
	closed  bool
}

// closeTimeout is how long a closed link tries to send remaining data.
const closeTimeout = 5 * time.Second

func openConns(local netip.Addr, cfg Config, security *tls.Config) (link.Streams, error) {
	local, err := checkLocal(local)
	if err != nil {
		return nil, err
	}
	// Binding a socket checks that the address belongs to this host.
	probe, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(local, 0)))
	if err != nil {
		return nil, fmt.Errorf("open TCP link on %v: expected an address of this host: %w", local, err)
	}
	err = setCongestion(probe, cfg.Congestion)
	_ = probe.Close() // nothing was accepted
	if err != nil {
		return nil, fmt.Errorf("open TCP link on %v: %w", local, err)
	}
	return newConns(system{}, local, cfg, security), nil
}

func newConns(n Network, local netip.Addr, cfg Config, security *tls.Config) *conns {
	l := &conns{base: base{local}, network: n, cfg: cfg, linger: lingerTimeout, wake: make(chan struct{}, 1), open: make(map[interface{ Close() error }]struct{})}
	if security != nil {
		l.security = trust.Complete(security, mpaProtocol)
	}
	l.ended, l.end = context.WithCancel(context.Background())
	return l
}

// Close closes every stream and listener, and waits up to closeTimeout for data to be sent.
func (l *conns) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	var open []interface{ Close() error }
	for c := range l.open {
		open = append(open, c)
	}
	l.mu.Unlock()
	for _, c := range open {
		_ = c.Close() // the stream is over in any case
	}
	l.end()
	l.Wake()
	l.work.Wait()
	return nil
}

// closing reports whether Close was called.
func (l *conns) closing() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// add registers something for Close to close. It reports false if the link is closed.
func (l *conns) add(c interface{ Close() error }) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.open[c] = struct{}{}
	return true
}

// remove undoes add, and discards a notice.
func (l *conns) remove(c interface{ Close() error }, n *notice) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	n.gone = true
	if _, ok := l.open[c]; !ok {
		return link.ErrClosed
	}
	delete(l.open, c)
	return nil
}

// A notice is what Ready will report for a stream or listener. The link's mu guards it.
type notice struct {
	link.Readiness
	queued, gone bool
}

// notify adds to the notice that Ready will report.
func (l *conns) notify(n *notice, r link.Readiness) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n.Readable, n.Writable, n.Hangup = n.Readable || r.Readable, n.Writable || r.Writable, n.Hangup || r.Hangup
	if !n.queued && !n.gone && n.Owner != nil {
		n.queued = true
		l.ready = append(l.ready, n)
		l.waiting.Store(int32(len(l.ready)))
	}
	l.Wake()
}

// Ready implements link.Streams.
func (l *conns) Ready(list []link.Readiness) (int, error) {
	if l.ended.Err() != nil {
		return 0, link.ErrClosed
	}
	if l.waiting.Load() == 0 {
		return 0, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	k, n := 0, 0
	for ; k < len(l.ready) && n < len(list); k++ {
		x := l.ready[k]
		x.queued = false
		if x.gone {
			continue
		}
		list[n] = x.Readiness
		n++
		x.Readiness = link.Readiness{Owner: x.Owner}
	}
	rest := copy(l.ready, l.ready[k:])
	clear(l.ready[rest:])
	l.ready = l.ready[:rest]
	l.waiting.Store(int32(rest))
	if rest > 0 {
		l.Wake()
	}
	return n, nil
}

// Wake ends the current or the next Wait.
func (l *conns) Wake() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Wait blocks until something may be ready, Wake or Close is called or d has
// passed; d < 0 means no limit.
func (l *conns) Wait(d time.Duration) error {
	var timeout <-chan time.Time
	if d >= 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		timeout = t.C
	}
	select {
	case <-l.wake:
	case <-timeout:
	case <-l.ended.Done():
	}
	if l.ended.Err() != nil {
		return link.ErrClosed
	}
	return nil
}

// addrPort converts an address of package net. A link-local address gets the link's zone.
func (l *conns) addrPort(a net.Addr) netip.AddrPort {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	at := t.AddrPort()
	return netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
}
