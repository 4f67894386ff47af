package netstack

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"softrdma/internal/fabric/attach"
	"softrdma/internal/fabric/fabrictest"
	"softrdma/internal/fabric/hostport"
	"softrdma/internal/fabric/live"
	"softrdma/internal/link/tcp"
)

// open opens a stack at a host of a fabric.
func open(t *testing.T, name string) *Stack {
	t.Helper()
	p, err := attach.OpenService(t.Context(), name, hostport.Segments, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(p.Link(), p.Info().Addrs[0], p.Info().Ethernet.MTU)
	if err != nil {
		t.Fatal(err)
	}
	p.HandleStackEnded(s.Probe)
	t.Cleanup(func() { _ = s.Close(p.Close) })
	return s
}

// Connections carry what is written in both directions and to its end, of both families, and what a closed
// connection still had to send.
func TestConnectionsOverAFabric(t *testing.T) {
	f := fabrictest.StartEthernet(t, "leaf-spine:leaves=2,spines=2,hosts=1", func(*live.Config) {})
	host := f.AttachHost(0)
	other := f.AttachHost(1)
	for k := range 2 {
		a, b := open(t, "test/"+host.Info().Addrs[k].String()), open(t, "test/"+other.Info().Addrs[k].String())
		l, err := b.Listen(netip.AddrPortFrom(b.local, 0))
		if err != nil {
			t.Fatal(err)
		}
		to := l.Addr().(*net.TCPAddr).AddrPort()
		sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
		answered := make(chan error, 1)
		go func() {
			c, err := l.Accept()
			if err == nil {
				err = c.Prepare(&tcp.Config{})
			}
			if err != nil {
				answered <- err
				return
			}
			got, err := io.ReadAll(c)
			if err == nil && !bytes.Equal(got, sent) {
				err = errors.New("other bytes arrived")
			}
			if err == nil {
				_, err = c.Write(got)
			}
			answered <- errors.Join(err, c.Close())
		}()
		c, err := a.Dial(t.Context(), netip.AddrPortFrom(a.local, 0), to, 96)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Prepare(&tcp.Config{}); err != nil {
			t.Error(err)
		}
		go func() {
			_, _ = c.Write(sent)
			_ = c.CloseWrite()
		}()
		back, err := io.ReadAll(c)
		if err = errors.Join(err, <-answered); err != nil || !bytes.Equal(back, sent) {
			t.Fatalf("%d bytes came back, %v", len(back), err)
		}
		if n := c.Segment(); n < 8900 || n >= 9000 {
			t.Errorf("segments of %d bytes", n)
		}
		if err := errors.Join(c.Close(), l.Close()); err != nil {
			t.Error(err)
		}
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	}
}

// A connection is refused as by the system: by a stack without the port, and by a host without a stack.
func TestConnectionsThatAreRefused(t *testing.T) {
	f := fabrictest.StartEthernet(t, "star:3", func(*live.Config) {})
	a, b := open(t, f.Adapters[0]), open(t, f.Adapters[1])
	from := netip.AddrPortFrom(a.local, 0)
	for _, to := range []netip.Addr{b.local, netip.MustParseAddr("10.0.0.3")} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		_, err := a.Dial(ctx, from, netip.AddrPortFrom(to, 99), 0)
		cancel()
		if !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%v: %v", to, err)
		}
	}
	if _, err := a.Dial(t.Context(), netip.MustParseAddrPort("10.0.0.7:0"), netip.AddrPortFrom(b.local, 99), 0); err == nil {
		t.Error("connected from another host's address")
	}
	l, err := b.Listen(netip.AddrPortFrom(b.local, 99))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Listen(netip.AddrPortFrom(b.local, 99)); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a port for two listeners: %v", err)
	}
	c, err := a.Dial(t.Context(), from, netip.AddrPortFrom(b.local, 99), 0)
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := l.Accept()
	if err == nil {
		err = errors.Join(accepted.SetLinger(0), accepted.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("after a reset: %v", err)
	}
}

// A program that is killed closes no connection. Its peers notice at once, whether they have something to
// send or not, and connections to others stand.
func TestConnectionsToAStackThatIsKilled(t *testing.T) {
	f := fabrictest.StartEthernet(t, "star:3", func(*live.Config) {})
	a, other := open(t, f.Adapters[0]), open(t, f.Adapters[2])
	p, err := attach.OpenService(t.Context(), f.Adapters[1], hostport.Segments, nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Open(p.Link(), p.Info().Addrs[0], p.Info().Ethernet.MTU)
	if err != nil {
		t.Fatal(err)
	}
	var idle [2]tcp.Conn
	for i, to := range []*Stack{b, other} {
		l, err := to.Listen(netip.AddrPortFrom(to.local, 99))
		if err != nil {
			t.Fatal(err)
		}
		if idle[i], err = a.Dial(t.Context(), netip.AddrPortFrom(a.local, 0), netip.AddrPortFrom(to.local, 99), 0); err != nil {
			t.Fatal(err)
		}
		if err := idle[i].Prepare(&tcp.Config{}); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Accept(); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Close(); err != nil { // as the end of the process does
		t.Fatal(err)
	}
	_ = idle[0].SetReadDeadline(time.Now().Add(10 * time.Second)) // less than PeerTimeout's first probe
	if _, err := idle[0].Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("connection to a stack that was killed: %v", err)
	}
	if _, err := idle[1].Write([]byte("x")); err != nil {
		t.Errorf("connection to another host: %v", err)
	}
}
