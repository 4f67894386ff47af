package tcp

import (
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"softrdma/internal/link"
)

// A peer that fails in its handshake does not hide the next one: after the error the listener
// is still ready.
func TestFailedArrivalDoesNotHideTheNext(t *testing.T) {
	l, err := openConns(netip.MustParseAddr("127.13.9.1"), Config{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	x, err := l.Listen(0, 4, t)
	if err != nil {
		t.Fatal(err)
	}
	a := x.(*acceptor)
	broken := errors.New("broken")
	a.room <- struct{}{}
	a.arrive(arrival{err: broken})
	c, err := net.Dial("tcp", x.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		a.mu.Lock()
		n := len(a.arrived)
		a.mu.Unlock()
		if n == 2 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the peer did not arrive")
		}
	}
	var list [4]link.Readiness
	for i, want := range []error{broken, nil} {
		if n, err := l.Ready(list[:]); n != 1 || err != nil || list[0].Owner != t || !list[0].Readable {
			t.Fatalf("%d: told %+v, %v", i, list[:n], err)
		}
		s, err := x.Accept(t)
		if err != want {
			t.Fatalf("%d: accepted %v, expected %v", i, err, want)
		}
		if s != nil {
			_ = s.Reset()
		}
	}
}

// A greeter is a connection in its handshake.
type greeter struct {
	Conn
	from   netip.AddrPort
	closed bool
}

func (g *greeter) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(g.from) }
func (g *greeter) Close() error         { g.closed = true; return nil }

// One more handshake replaces one of the host that has most of them.
func TestHandshakesOfOneHostDisplaceNoOthers(t *testing.T) {
	a := &acceptor{l: newConns(nil, netip.MustParseAddr("127.0.0.1"), Config{}, nil), room: make(chan struct{}, maxArriving)}
	slow := &greeter{from: netip.MustParseAddrPort("198.51.100.7:1")}
	all := []*greeter{slow}
	for i := range maxArriving - 1 {
		all = append(all, &greeter{from: netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"), uint16(1+i))})
	}
	for _, g := range all {
		a.room <- struct{}{}
		a.greeting.PushBack(Conn(g))
	}
	const more = 3
	for range more {
		a.makeRoom()
	}
	for i, g := range all {
		if want := i > 0 && i <= more; g.closed != want {
			t.Errorf("handshake %d: closed %v, expected %v", i, g.closed, want)
		}
	}
}
