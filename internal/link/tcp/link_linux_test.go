package tcp

import (
	"bytes"
	"errors"
	"io"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"softrdma/internal/link"
)

// An owner records what Ready reports for it.
type owner struct{ readable, writable, hangup bool }

type end struct {
	*testing.T
	l link.Streams
}

// An opener opens links of one kind.
type opener func(netip.Addr, Config) (link.Streams, error)

// kinds are the links of this system and those of other systems, which work here too.
func kinds(t *testing.T, test func(*testing.T, opener)) {
	secret := trusting(t)
	for name, o := range map[string]opener{
		"epoll":      Open,
		"goroutines": func(a netip.Addr, c Config) (link.Streams, error) { return openConns(a, c, nil) },
		"TLS":        func(a netip.Addr, c Config) (link.Streams, error) { return OpenTLS(a, c, secret) },
		"relay":      func(a netip.Addr, c Config) (link.Streams, error) { return openRelay(a, c, secret) },
	} {
		t.Run(name, func(t *testing.T) { test(t, o) })
	}
}

func (k opener) open(t *testing.T, addr string) end {
	t.Helper()
	l, err := k(netip.MustParseAddr(addr), Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return end{t, l}
}

// until waits in the link until a report makes ok true.
func (e end) until(ok func() bool) {
	e.Helper()
	if err := e.await(ok); err != nil {
		e.Fatal(err)
	}
}

// await is until for goroutines other than the test's.
func (e end) await(ok func() bool) error {
	var list [4]link.Readiness
	for end := time.Now().Add(30 * time.Second); !ok(); {
		if time.Now().After(end) {
			return errors.New("nothing came")
		}
		if err := e.l.Wait(time.Second); err != nil {
			return err
		}
		n, err := e.l.Ready(list[:])
		if err != nil {
			return err
		}
		for _, r := range list[:n] {
			o := r.Owner.(*owner)
			o.readable, o.writable, o.hangup = o.readable || r.Readable, o.writable || r.Writable, o.hangup || r.Hangup
		}
	}
	return nil
}

// connected waits for the result of dialling.
func (e end) connected(s link.Stream, o *owner) (err error) {
	e.Helper()
	e.until(func() bool {
		if !o.writable {
			return false
		}
		err = s.Connected()
		return err != link.ErrWouldBlock
	})
	return err
}

// streams makes a stream between two links.
func streams(a, b end) (x, y link.Stream, ox, oy *owner) {
	a.Helper()
	ol := &owner{}
	l, err := b.l.Listen(0, 4, ol)
	if err != nil {
		a.Fatal(err)
	}
	defer l.Close()
	ox, oy = &owner{}, &owner{}
	if _, err := l.Accept(oy); err != link.ErrWouldBlock {
		a.Fatalf("accepting nothing: %v", err)
	}
	if x, err = a.l.Dial(0, l.Addr(), 8, ox); err != nil {
		a.Fatal(err)
	}
	b.until(func() bool { return ol.readable })
	if y, err = l.Accept(oy); err != nil {
		a.Fatal(err)
	}
	if err := a.connected(x, ox); err != nil {
		a.Fatal(err)
	}
	if x.Local() != y.Remote() || x.Remote() != y.Local() || x.Remote() != l.Addr() {
		a.Errorf("%v to %v, %v to %v", x.Local(), x.Remote(), y.Local(), y.Remote())
	}
	return x, y, ox, oy
}

// TLS divides the stream itself, so the segment size is unknown.
func TestSegmentIsTCPs(t *testing.T) {
	kinds(t, func(t *testing.T, k opener) {
		x, y, _, _ := streams(k.open(t, "127.13.2.1"), k.open(t, "127.13.2.2"))
		for _, s := range []link.Stream{x, y} {
			n := s.Segment()
			_, relayed := s.(*relayedStream)
			if c, ok := s.(*conn); ok && c.l.security != nil || relayed {
				if n != 0 {
					t.Errorf("%d under TLS", n)
				}
				continue
			}
			// A loopback interface of 64 KiB minus headers, or half of the window at first.
			if n < 16<<10 || n > 65535 {
				t.Errorf("%d, expected what the loopback interface has", n)
			}
		}
	})
}

func TestStreamCarriesPiecesUntilItsEnd(t *testing.T) { kinds(t, testStreamCarriesPiecesUntilItsEnd) }

func testStreamCarriesPiecesUntilItsEnd(t *testing.T, k opener) {
	for _, addrs := range [][2]string{{"127.13.2.1", "127.13.2.2"}, {"::1", "::1"}} {
		a, b := k.open(t, addrs[0]), k.open(t, addrs[1])
		x, y, _, oy := streams(a, b)
		if _, err := y.Read([][]byte{make([]byte, 1)}); err != link.ErrWouldBlock {
			t.Errorf("reading nothing: %v", err)
		}
		if n, err := x.Write([][]byte{[]byte("one "), nil, []byte("two")}); n != 7 || err != nil {
			t.Errorf("wrote %d, %v", n, err)
		}
		b.until(func() bool { return oy.readable })
		p, q := make([]byte, 5), make([]byte, 5)
		if n, err := y.Read([][]byte{p, q}); n != 7 || err != nil || string(p)+string(q[:2]) != "one two" {
			t.Errorf("read %d, %v: %q %q", n, err, p, q)
		}
		if err := x.ShutWrite(); err != nil {
			t.Error(err)
		}
		b.until(func() bool { return oy.hangup })
		if _, err := y.Read([][]byte{p}); err != io.EOF {
			t.Errorf("at the end: %v", err)
		}
		if err := errors.Join(x.Close(), y.Close()); err != nil {
			t.Error(err)
		}
		if err := x.Close(); err != link.ErrClosed {
			t.Errorf("closing twice: %v", err)
		}
	}
}

func TestStreamFullWouldBlockUntilRead(t *testing.T) { kinds(t, testStreamFullWouldBlockUntilRead) }

func testStreamFullWouldBlockUntilRead(t *testing.T, k opener) {
	a, b := k.open(t, "127.13.2.3"), k.open(t, "127.13.2.4")
	x, y, ox, _ := streams(a, b)
	block := bytes.Repeat([]byte("x"), 1<<16)
	sent := 0
	for {
		n, err := x.Write([][]byte{block})
		sent += n
		if err == link.ErrWouldBlock {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	ox.writable = false
	got := 0
	for got < sent {
		n, err := y.Read([][]byte{block})
		got += n
		if err != nil && err != link.ErrWouldBlock {
			t.Fatal(err)
		}
	}
	a.until(func() bool { return ox.writable })
	if err := y.Reset(); err != nil {
		t.Error(err)
	}
	a.until(func() bool { return ox.hangup })
	if _, err := x.Read([][]byte{block}); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("after a reset: %v", err)
	}
	err := error(nil)
	for end := time.Now().Add(30 * time.Second); err == nil || err == link.ErrWouldBlock; _, err = x.Write([][]byte{block}) {
		if time.Now().After(end) {
			t.Fatal("no end of writing after a reset")
		}
	}
	if !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("after a reset: %v", err)
	}
}

func TestDialRefusals(t *testing.T) { kinds(t, testDialRefusals) }

func testDialRefusals(t *testing.T, k opener) {
	a, b := k.open(t, "127.13.2.5"), k.open(t, "127.13.2.6")
	l, err := b.l.Listen(0, 1, &owner{})
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr()
	if _, err := b.l.Listen(at.Port(), 1, &owner{}); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a port twice: %v", err)
	}
	_ = l.Close()
	o := &owner{}
	s, err := a.l.Dial(0, at, 0, o)
	if err == nil {
		err = a.connected(s, o)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("no listener: %v", err)
	}
	for _, dst := range []string{"[::1]:7", "127.0.0.1:0", "0.0.0.0:7", "224.0.0.1:7"} {
		if _, err := a.l.Dial(0, netip.MustParseAddrPort(dst), 0, o); err == nil {
			t.Errorf("dialled %s", dst)
		}
	}
	for _, local := range []string{"0.0.0.0", "224.0.0.1", "fe80::1", "192.0.2.77"} {
		if _, err := k(netip.MustParseAddr(local), Config{}); err == nil {
			t.Errorf("opened %s", local)
		}
	}
}

func TestWakeAndCloseEndWait(t *testing.T) { kinds(t, testWakeAndCloseEndWait) }

func testWakeAndCloseEndWait(t *testing.T, k opener) {
	files := func() int {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	before := files()
	l, err := k(netip.MustParseAddr("127.13.2.7"), Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Listen(0, 1, &owner{}); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	wait := func() { ended <- l.Wait(-1) }
	go wait()
	l.Wake()
	if err := <-ended; err != nil {
		t.Errorf("Wake: %v", err)
	}
	go wait()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != link.ErrClosed {
		t.Errorf("Close: %v", err)
	}
	l.Wake()
	if _, err := l.Ready(nil); err != link.ErrClosed {
		t.Errorf("closed: %v", err)
	}
	if n := files(); n > before { // fewer if another test's was closed meanwhile
		t.Errorf("%d descriptors, before %d", n, before)
	}
}
