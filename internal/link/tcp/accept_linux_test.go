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
