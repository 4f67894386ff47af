package tcp

import (
	"container/list"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"softrdma/internal/link"
)

const (
	// maxArriving limits the connections of a listener that the lane has not accepted. Most of
	// them are in a TLS handshake. One more replaces another handshake, so that silent
	// peers do not keep others out.
	maxArriving = 256

	// acceptPause is how long a listener waits when the system is out of descriptors.
	acceptPause = 100 * time.Millisecond
)

// An acceptor is a link.Listener. A goroutine accepts connections. With TLS, another one for
// each connection does the handshake before the lane sees it.
type acceptor struct {
	notice
	l    *conns
	nl   Listener
	addr netip.AddrPort
	room chan struct{} // a token for each connection in progress

	mu       sync.Mutex
	arrived  []arrival
	greeting list.List // of Conn in their handshake, oldest first
	shut     bool
}

// An arrival is a result of Accept: a connection or an error.
type arrival struct {
	raw  Conn
	over transport
	err  error
}

// Listen accepts streams on a port of the link's address. The backlog is the system's default.
func (l *conns) Listen(port uint16, _ int, owner any) (link.Listener, error) {
	at := netip.AddrPortFrom(l.local, port)
	nl, err := l.network.Listen(at)
	if err != nil {
		return nil, fmt.Errorf("listen on %v: %w", at, named(err))
	}
	a := &acceptor{l: l, nl: nl, addr: l.addrPort(nl.Addr()), room: make(chan struct{}, maxArriving)}
	a.Owner = owner
	if !l.add(a) {
		_ = nl.Close()
		return nil, link.ErrClosed
	}
	l.work.Go(a.run)
	return a, nil
}

// run accepts until the listener is closed.
func (a *acceptor) run() {
	for {
		raw, err := a.nl.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		a.makeRoom()
		a.room <- struct{}{} // returned by Accept, and by Close for all
		switch {
		case err != nil:
			a.arrive(arrival{err: err})
			select {
			case <-time.After(acceptPause):
			case <-a.l.ended.Done():
			}
		case a.l.security == nil:
			a.arrive(a.prepare(raw))
		default:
			a.l.work.Go(func() { a.arrive(a.greet(raw)) })
		}
	}
}

// makeRoom ends a handshake if there are maxArriving connections: the oldest one of the host that has most.
// Connections past their handshake stay.
func (a *acceptor) makeRoom() {
	if len(a.room) < cap(a.room) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []*list.Element
	var from []netip.Addr
	for e := a.greeting.Front(); e != nil; e = e.Next() {
		all, from = append(all, e), append(from, a.l.addrPort(e.Value.(Conn).RemoteAddr()).Addr())
	}
	if len(all) == 0 {
		return
	}
	e := all[link.Displaced(from)]
	a.greeting.Remove(e)
	_ = e.Value.(Conn).Close() // makes the handshake fail
}

func (a *acceptor) prepare(raw Conn) arrival {
	if err := raw.Prepare(&a.l.cfg); err != nil {
		_ = raw.Close()
		return arrival{err: err}
	}
	return arrival{raw: raw, over: raw}
}

// greet does the handshake.
func (a *acceptor) greet(raw Conn) arrival {
	x := a.prepare(raw)
	if x.err != nil {
		return x
	}
	a.mu.Lock()
	place := a.greeting.PushBack(raw)
	a.mu.Unlock()
	if x.over, x.err = server(a.l.ended, raw, a.l.security); x.err != nil {
		if f := a.l.cfg.Refused; f != nil && a.l.ended.Err() == nil {
			f(a.l.addrPort(raw.RemoteAddr()), x.err)
		}
		_ = raw.Close()
	}
	a.mu.Lock()
	a.greeting.Remove(place) // no effect if makeRoom did it
	a.mu.Unlock()
	return x
}

// arrive queues an arrival for Accept.
func (a *acceptor) arrive(x arrival) {
	a.mu.Lock()
	if !a.shut {
		a.arrived = append(a.arrived, x)
		a.mu.Unlock()
		a.l.notify(&a.notice, link.Readiness{Readable: true})
		return
	}
	a.mu.Unlock()
	x.refuse()
	<-a.room
}

// refuse closes a connection that the lane will not accept.
func (x *arrival) refuse() {
	if x.raw != nil && x.err == nil {
		_ = x.raw.SetLinger(0)
		_ = x.raw.Close()
	}
}

// Addr implements link.Listener.
func (a *acceptor) Addr() netip.AddrPort { return a.addr }

// Accept implements link.Listener.
func (a *acceptor) Accept(owner any) (link.Stream, error) {
	a.mu.Lock()
	if len(a.arrived) == 0 {
		a.mu.Unlock()
		return nil, link.ErrWouldBlock
	}
	x := a.arrived[0]
	a.arrived = a.arrived[1:]
	more := len(a.arrived) > 0
	a.mu.Unlock()
	<-a.room
	if x.err != nil {
		if more { // the lane does not try again by itself
			a.l.notify(&a.notice, link.Readiness{Readable: true})
		}
		return nil, x.err
	}
	c := a.l.newConn(owner)
	if !c.begin(x.raw, x.over) {
		x.refuse()
		return nil, link.ErrClosed
	}
	return c, nil
}

// Close closes the listener and resets streams that were not accepted.
func (a *acceptor) Close() error {
	if err := a.l.remove(a, &a.notice); err != nil {
		return err
	}
	err := a.nl.Close()
	a.mu.Lock()
	a.shut = true
	rest := a.arrived
	a.arrived = nil
	a.mu.Unlock()
	for i := range rest {
		rest[i].refuse()
	}
	for range rest {
		<-a.room
	}
	return err
}
