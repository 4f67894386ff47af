package rdmanet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/nettest"

	"softrdma/internal/reason"
	"softrdma/rdmacm"
	"softrdma/rdmanet/internal/rsocket"
	"softrdma/verbs"
)

// listen listens on its own device and port.
func listen(t testing.TB, lc ListenConfig) *Listener {
	t.Helper()
	lc.Device = openDevice(t, verbs.Config{})
	t.Cleanup(func() { lc.Device.Close() })
	l, err := lc.Listen(t.Context(), "rdma", net.JoinHostPort(lc.Device.Addr().Addr().String(), "0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.(*Listener)
}

// dialer returns a Dialer with its own device and a timeout of 20 s.
func dialer(t testing.TB) *Dialer {
	t.Helper()
	dev := openDevice(t, verbs.Config{})
	t.Cleanup(func() { dev.Close() })
	return &Dialer{Device: dev, Timeout: 20 * time.Second, LocalAddr: tcpAddr(netip.AddrPortFrom(dev.Addr().Addr(), 0))}
}

// dial connects to a listener.
func dial(t testing.TB, d *Dialer, l *Listener) (c, s *Conn) {
	t.Helper()
	c1, err := d.Dial("rdma", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	l.SetDeadline(soon())
	s1, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c1.Close(); s1.Close() })
	return c1.(*Conn), s1.(*Conn)
}

func TestConnSemanticsOfNettestOverTheConnectionManager(t *testing.T) {
	l, d := listen(t, ListenConfig{}), dialer(t)
	nettest.TestConn(t, func() (net.Conn, net.Conn, func(), error) {
		c, s := dial(t, d, l)
		return c, s, func() { c.Close(); s.Close() }, nil
	})
}

func TestDialAndAcceptReturnAddresses(t *testing.T) {
	l, d := listen(t, ListenConfig{}), dialer(t)
	c, s := dial(t, d, l)
	for name, a := range map[string][2]net.Addr{
		"client's local": {c.LocalAddr(), s.RemoteAddr()}, "client's remote": {c.RemoteAddr(), s.LocalAddr()}, "listener's": {l.Addr(), s.LocalAddr()},
	} {
		if a[0].String() != a[1].String() || a[0].Network() != "tcp" || a[0].(*net.TCPAddr).Port == 0 {
			t.Errorf("%s address: %v and %v", name, a[0], a[1])
		}
	}
}

// The peer reads to the end although both ends close at the same time through the
// connection manager.
func TestCloseLosesNothingOverTheConnectionManager(t *testing.T) {
	l, d := listen(t, ListenConfig{}), dialer(t)
	for i := range 20 {
		c, s := dial(t, d, l)
		p := random(uint64(i), 150_000)
		if _, err := c.Write(p); err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(s)
		if err != nil || !bytes.Equal(got, p) {
			t.Fatalf("%d bytes of %d: %v", len(got), len(p), err)
		}
		if _, err := s.Write(p); !errors.Is(err, syscall.EPIPE) {
			t.Fatalf("expected EPIPE, found %v", err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDialErrorsAreNamedAndInTime(t *testing.T) {
	l, d := listen(t, ListenConfig{}), dialer(t)
	addr := l.Addr().String()
	l.Close()
	nobody := fmt.Sprintf("127.251.%d.%d:7471", rand.IntN(250), 1+rand.IntN(250))
	quick := *d
	quick.Timeout = 300 * time.Millisecond
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		d             *Dialer
		ctx           context.Context
		network, addr string
		want          error
		timeout       bool
	}{
		"nobody listens":     {d, t.Context(), "rdma", addr, syscall.ECONNREFUSED, false},
		"no device":          {&quick, t.Context(), "rdma", nobody, context.DeadlineExceeded, true},
		"cancelled":          {d, cancelled, "rdma", nobody, context.Canceled, false},
		"unknown network":    {d, t.Context(), "udp", addr, net.UnknownNetworkError("udp"), false},
		"unknown network 4":  {d, t.Context(), "4", addr, net.UnknownNetworkError("4"), false},
		"no network":         {d, t.Context(), "", addr, net.UnknownNetworkError(""), false},
		"wrong local family": {&Dialer{LocalAddr: &net.UDPAddr{}}, t.Context(), "rdma", addr, nil, false},
		"no port":            {d, t.Context(), "rdma", "127.0.0.1", nil, false},
		"other family":       {d, t.Context(), "tcp6", addr, nil, false},
		"no such name":       {d, t.Context(), "tcp", "no..name:80", nil, false}, // for which no server of names is asked
	} {
		start := time.Now()
		conn, err := c.d.DialContext(c.ctx, c.network, c.addr)
		var op *net.OpError
		if conn != nil || !errors.As(err, &op) || op.Op != "dial" || c.want != nil && !errors.Is(err, c.want) || op.Timeout() != c.timeout {
			t.Errorf("%s: expected %v, found %v (timeout %v)", name, c.want, err, op != nil && op.Timeout())
		}
		if took := time.Since(start); took > 15*time.Second {
			t.Errorf("%s: took %v", name, took)
		}
	}
}

// A listener rejects a peer that does not use rsockets, and a Dialer rejects such a
// listener.
func TestPeerOfAnotherProtocolIsRefused(t *testing.T) {
	refused := make(chan error, 1)
	l, d := listen(t, ListenConfig{Refused: func(_ net.Addr, err error) { refused <- err }}), dialer(t)
	cm := rdmacm.Dialer{Device: d.Device, Param: rdmacm.ConnParam{PrivateData: []byte("hello")}}
	_, err := cm.Dial(t.Context(), l.Addr().String())
	var rejected *rdmacm.RejectedError
	if !errors.As(err, &rejected) {
		t.Errorf("the peer: expected to be rejected, found %v", err)
	}
	var f *rsocket.Fault
	if err := <-refused; !errors.As(err, &f) || f.Detail.Reason != reason.SocketVersion {
		t.Errorf("the listener: expected %v, found %v", reason.SocketVersion, err)
	}

	other, err := rdmacm.Listen(net.JoinHostPort(l.cfg.Device.Addr().Addr().String(), "0"), rdmacm.ListenConfig{Device: l.cfg.Device})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	go func() {
		if c, err := other.Accept(t.Context()); err == nil {
			<-c.Done()
			c.Close()
		}
	}()
	if _, err := d.Dial("rdma", other.Addr().String()); !errors.As(err, &f) || f.Detail.Reason != reason.SocketVersion {
		t.Errorf("the dialer: expected %v, found %v", reason.SocketVersion, err)
	}
	// Both still work.
	dial(t, d, l)
}

func TestListenerDeadlineAndClose(t *testing.T) {
	l, d := listen(t, ListenConfig{}), dialer(t)
	l.SetDeadline(time.Now().Add(10 * time.Millisecond))
	if _, err := l.Accept(); err == nil || !err.(net.Error).Timeout() {
		t.Fatalf("expected a timeout, found %v", err)
	}
	dial(t, d, l) // dial sets another deadline
	l.SetDeadline(time.Time{})
	done := make(chan error, 1)
	go func() {
		_, err := l.Accept()
		done <- err
	}()
	waiting, err := d.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer waiting.Close()
	if err := <-done; err != nil { // Accept returned it
		t.Fatal(err)
	}
	go func() {
		_, err := l.Accept()
		done <- err
	}()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, net.ErrClosed) {
		t.Fatalf("expected net.ErrClosed, found %v", err)
	}
	if err := l.Close(); !errors.Is(err, net.ErrClosed) {
		t.Fatalf("second Close: expected net.ErrClosed, found %v", err)
	}
}

// Connections that were made, refused, given up and closed leave no objects and no
// goroutines.
func TestDialAndListenLeaveNothing(t *testing.T) {
	before := 0
	for round := range 3 {
		da, db := openDevice(t, verbs.Config{}), openDevice(t, verbs.Config{})
		counts := da.Counts()
		ln, err := (&ListenConfig{Device: da}).Listen(t.Context(), "rdma", net.JoinHostPort(da.Addr().Addr().String(), "0"))
		if err != nil {
			t.Fatal(err)
		}
		l := ln.(*Listener)
		d := &Dialer{Device: db, Timeout: 20 * time.Second}
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				c, err := d.Dial("rdma", l.Addr().String())
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				if _, err := io.WriteString(c, "hello"); err != nil {
					t.Error(err)
				}
				io.Copy(io.Discard, c)
			})
			all.Go(func() {
				l.SetDeadline(soon())
				c, err := l.Accept()
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				if _, err := io.ReadFull(c, make([]byte, 5)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if _, err := (&Dialer{Device: db, Timeout: 50 * time.Millisecond}).Dial("rdma", "127.250.3.4:9"); err == nil {
			t.Error("connected without a listener")
		}
		unaccepted, err := d.Dial("rdma", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		// The end of the stream or a reset, depending on the server's progress.
		if _, err := unaccepted.Read(make([]byte, 1)); err != io.EOF && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("a connection that was not accepted: expected EOF or ECONNRESET, found %v", err)
		}
		unaccepted.Close()
		for _, dev := range []*verbs.Device{da, db} {
			if c := dev.Counts(); c != counts {
				t.Errorf("objects: expected %+v, found %+v", counts, c)
			}
			dev.Close()
		}
		n := settled()
		if round == 0 {
			before = n
		}
		for end := soon(); n > before && time.Now().Before(end); { // the machine may be busy
			n = settled()
		}
		if n > before {
			buf := make([]byte, 1<<16)
			t.Errorf("%d goroutines, %d before:\n%s", n, before, buf[:runtime.Stack(buf, true)])
		}
	}
}

// settled returns the number of goroutines when it no longer decreases.
func settled() int {
	n := runtime.NumGoroutine()
	for range 50 {
		time.Sleep(10 * time.Millisecond)
		n = min(n, runtime.NumGoroutine())
	}
	return n
}
