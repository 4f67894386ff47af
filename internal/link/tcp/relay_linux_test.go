package tcp

import (
	"crypto/tls"
	"errors"
	"io"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"softrdma/internal/link"
	"softrdma/internal/reason"
)

// A relayPair is the link of a process together with that of the process which has its
// connections.
type relayPair struct {
	*relayedLink
	with *conns
	held atomic.Int64 // streams that with relays
}

func openRelay(a netip.Addr, cfg Config, secret *tls.Config) (*relayPair, error) {
	with, err := OpenTLS(a, cfg, secret)
	if err != nil {
		return nil, err
	}
	p := &relayPair{with: with.(*conns)}
	l, err := OpenRelayed(a, func(fd int, port uint16, dst netip.AddrPort, tos uint8) error {
		fd, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err == nil {
			p.with.Relay(fd, port, dst, tos, p.hold)
		}
		return err
	})
	if err != nil {
		return nil, errors.Join(err, with.Close())
	}
	p.relayedLink = l.(*relayedLink)
	return p, nil
}

func (p *relayPair) hold() (func(), error) {
	p.held.Add(1)
	return func() { p.held.Add(-1) }, nil
}

func (p *relayPair) Ready(list []link.Readiness) (int, error) {
	n, err := p.with.Ready(list)
	if err != nil {
		return n, err
	}
	more, err := p.relayedLink.Ready(list[n:])
	return n + more, err
}

func (p *relayPair) Wait(time.Duration) error { return p.relayedLink.Wait(time.Millisecond) }

func (p *relayPair) Close() error { return errors.Join(p.relayedLink.Close(), p.with.Close()) }

type relayListener struct {
	link.Listener
	p *relayPair
}

func (p *relayPair) Listen(port uint16, backlog int, owner any) (link.Listener, error) {
	l, err := p.with.Listen(port, backlog, owner)
	return &relayListener{l, p}, err
}

func (l *relayListener) Accept(owner any) (link.Stream, error) {
	s, err := l.Listener.Accept(nil)
	if err != nil {
		return nil, err
	}
	fd, err := l.p.with.Move(s, l.p.hold)
	if err != nil {
		return nil, err
	}
	return l.p.relayedLink.Adopt(fd, owner)
}

// relayed returns a stream between a link with TLS and a relayed one.
func relayed(t *testing.T, accepts bool) (a, b end, x, y link.Stream, ox, oy *owner, p *relayPair) {
	return lingering(t, accepts, lingerTimeout)
}

// lingering is relayed with a limit for the time in which a peer may take what is left.
func lingering(t *testing.T, accepts bool, limit time.Duration) (a, b end, x, y link.Stream, ox, oy *owner, p *relayPair) {
	secret := trusting(t)
	a = opener(func(a netip.Addr, c Config) (link.Streams, error) { return OpenTLS(a, c, secret) }).open(t, "127.13.9.1")
	b = opener(func(a netip.Addr, c Config) (link.Streams, error) {
		p, err := openRelay(a, c, secret)
		p.with.linger = limit
		return p, err
	}).open(t, "127.13.9.2")
	if accepts {
		x, y, ox, oy = streams(a, b)
	} else {
		y, x, oy, ox = streams(b, a)
	}
	return a, b, x, y, ox, oy, b.l.(*relayPair)
}

// bothWays runs a test with a stream that the process has accepted, and with one that it has dialled.
func bothWays(t *testing.T, test func(t *testing.T, accepts bool)) {
	for name, accepts := range map[string]bool{"accepted": true, "dialled": false} {
		t.Run(name, func(t *testing.T) { test(t, accepts) })
	}
}

// end reads a stream to its end, and returns how many bytes came and what ended it.
func (e end) readAll(s link.Stream, o *owner) (total int, err error) {
	b := make([]byte, 64<<10)
	for {
		n, err := s.Read([][]byte{b[:100], b[100:]})
		total += n
		switch {
		case err == link.ErrWouldBlock || err == nil && n < len(b) && !o.hangup:
			o.readable = false
			e.until(func() bool { return o.readable })
		case err != nil:
			return total, err
		}
	}
}

// fill writes until the stream takes no more for a moment, and returns the number of bytes.
func fill(e end, s link.Stream, o *owner) (total int) {
	b := make([]byte, 30000)
	for wait := 0; wait < 20; {
		n, err := s.Write([][]byte{b[:7], b[7:]})
		total += n
		switch err {
		case nil:
			wait = 0
		case link.ErrWouldBlock:
			wait++
			_ = e.l.Wait(time.Millisecond)
			_, _ = e.l.Ready(make([]link.Readiness, 4))
			time.Sleep(time.Millisecond)
		default:
			e.Fatal(err)
		}
	}
	return total
}

func released(t *testing.T, p *relayPair) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); p.held.Load() != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d streams are still relayed", p.held.Load())
		}
	}
}

func TestRelayDeliversAllBeforeTheProcessesEnd(t *testing.T) {
	bothWays(t, func(t *testing.T, accepts bool) {
		a, b, x, y, ox, oy, p := relayed(t, accepts)
		sent, read := fill(b, y, oy), 0
		room := make([]byte, 64<<10)
		for owed := &y.(*relayedStream).owed; *owed > 0; {
			n, _ := x.Read([][]byte{room})
			read += n
			n, err := y.Write([][]byte{room[:*owed]})
			if sent += n; err != nil && err != link.ErrWouldBlock {
				t.Fatal(err)
			}
		}
		if err := y.Close(); err != nil { // the end of a killed process is the same
			t.Fatal(err)
		}
		n, err := a.readAll(x, ox)
		if n += read; n != sent || err != io.EOF {
			t.Errorf("%d bytes of %d, then %v", n, sent, err)
		}
		released(t, p)
	})
}

func TestRelayDeliversAllBeforeThePeersEnd(t *testing.T) {
	bothWays(t, func(t *testing.T, accepts bool) {
		a, b, x, y, ox, oy, p := relayed(t, accepts)
		sent := fill(a, x, ox)
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
		n, err := b.readAll(y, oy)
		if n != sent || err != io.EOF {
			t.Errorf("%d bytes of %d, then %v", n, sent, err)
		}
		_ = y.Close()
		released(t, p)
	})
}

func TestRelayPassesResetsOn(t *testing.T) {
	bothWays(t, func(t *testing.T, accepts bool) {
		a, _, x, y, ox, _, p := relayed(t, accepts)
		if err := y.Reset(); err != nil {
			t.Fatal(err)
		}
		if _, err := a.readAll(x, ox); err == io.EOF {
			t.Error("the peer takes a reset for an end")
		}
		released(t, p)
	})
	bothWays(t, func(t *testing.T, accepts bool) {
		_, b, x, y, _, oy, p := relayed(t, accepts)
		if err := x.Reset(); err != nil {
			t.Fatal(err)
		}
		if _, err := b.readAll(y, oy); err == io.EOF {
			t.Error("the process takes a reset for an end")
		}
		_ = y.Close()
		released(t, p)
	})
}

func TestRelayResetsAPeerThatTakesNothing(t *testing.T) {
	a, b, x, y, ox, oy, p := relayed(t, true)
	sent := fill(b, y, oy)
	if err := y.Reset(); err != nil {
		t.Fatal(err)
	}
	if n, err := a.readAll(x, ox); err == io.EOF || n > sent {
		t.Errorf("%d bytes of %d, then %v", n, sent, err)
	}
	released(t, p)
}

// A peer that takes nothing stalls no other peer, and does not keep the connection of a process that
// has gone.
func TestAttackDeafPeerOfARelayStallsNoOther(t *testing.T) {
	a, b, _, y, _, oy, p := lingering(t, true, 50*time.Millisecond)
	fill(b, y, oy)
	v, w, _, ow := streams(a, b)
	if _, err := v.Write([][]byte{[]byte("hello")}); err != nil {
		t.Fatal(err)
	}
	b.until(func() bool { return ow.readable })
	if n, err := w.Read([][]byte{make([]byte, 10)}); n != 5 {
		t.Errorf("another peer's bytes: %d, %v", n, err)
	}
	if err := errors.Join(y.Reset(), w.Reset()); err != nil {
		t.Fatal(err)
	}
	released(t, p)
}

// A link that closes waits for a peer that takes nothing as it does without a relay.
func TestRelayThatStallsDelaysTheCloseOfItsLinkNoLonger(t *testing.T) {
	t.Parallel()
	_, b, _, y, _, oy, p := lingering(t, true, time.Hour)
	fill(b, y, oy)
	closed := make(chan error, 1)
	go func() { closed <- p.with.Close() }()
	select {
	case <-closed:
	case <-time.After(4 * closeTimeout):
		t.Error("the link is not closed")
	}
}

// A cut is an end of TCP that TLS did not announce.
func TestRelayTellsACutFromAnEnd(t *testing.T) {
	bothWays(t, func(t *testing.T, accepts bool) {
		_, b, x, y, _, oy, p := relayed(t, accepts)
		if _, err := x.Write([][]byte{{1}}); err != nil {
			t.Fatal(err)
		}
		for x.Held() > 0 {
			time.Sleep(time.Millisecond)
		}
		if err := x.(*conn).raw.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		_, err := b.readAll(y, oy)
		if f := failed(err); f != reason.TLSLost {
			t.Errorf("%v, expected %v: %v", f, reason.TLSLost, err)
		}
		_ = y.Close()
		released(t, p)
	})
}

func TestRelayThatIsKilledIsNoEnd(t *testing.T) {
	_, b, _, y, _, oy, _ := relayed(t, true)
	r := b.l.(*relayPair)
	r.with.mu.Lock()
	for c := range r.with.open {
		if c, ok := c.(*conn); ok {
			_ = c.relay.(*socketRelay).far.Close()
		}
	}
	r.with.mu.Unlock()
	_, err := b.readAll(y, oy)
	if f := failed(err); f != reason.StreamLost {
		t.Errorf("%v, expected %v: %v", f, reason.StreamLost, err)
	}
	if _, err := y.Write([][]byte{{1}}); err == nil {
		t.Error("the relay that has ended takes data")
	}
}

func TestRelayHalfCloseLeavesTheOtherDirection(t *testing.T) {
	bothWays(t, func(t *testing.T, accepts bool) {
		a, b, x, y, ox, oy, p := relayed(t, accepts)
		if err := y.ShutWrite(); err != nil {
			t.Fatal(err)
		}
		if _, err := a.readAll(x, ox); err != io.EOF {
			t.Fatal(err)
		}
		sent := fill(a, x, ox)
		if err := x.ShutWrite(); err != nil {
			t.Fatal(err)
		}
		if n, err := b.readAll(y, oy); n != sent || err != io.EOF {
			t.Errorf("%d bytes of %d, then %v", n, sent, err)
		}
		_ = y.Close()
		released(t, p)
	})
}

func TestRelayEndsWithItsLink(t *testing.T) {
	bothWays(t, func(t *testing.T, accepts bool) {
		a, b, x, y, ox, oy, p := relayed(t, accepts)
		if _, err := y.Write([][]byte{{1, 2, 3}}); err != nil {
			t.Fatal(err)
		}
		if err := p.with.Close(); err != nil {
			t.Fatal(err)
		}
		if n, err := a.readAll(x, ox); n != 3 || err != io.EOF {
			t.Errorf("the peer got %d bytes, then %v", n, err)
		}
		b.l = p.relayedLink
		_, err := b.readAll(y, oy)
		if f := failed(err); f != reason.StreamLost {
			t.Errorf("%v, expected %v: %v", f, reason.StreamLost, err)
		}
		released(t, p)
	})
}

func TestRelayedDialFailsAsOneWithout(t *testing.T) {
	b := opener(func(a netip.Addr, c Config) (link.Streams, error) { return openRelay(a, c, trusting(t)) }).open(t, "127.13.9.2")
	o := &owner{}
	s, err := b.l.Dial(0, netip.MustParseAddrPort("127.13.9.3:9"), 0, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.connected(s, o); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("%v", err)
	}
	_ = s.Close()
	released(t, b.l.(*relayPair))
}

func TestRelayWithoutRoomIsRefused(t *testing.T) {
	_, _, _, _, _, _, p := relayed(t, true)
	refuse := func() (func(), error) { return nil, unix.EMFILE }
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	p.with.Relay(fds[0], 0, netip.MustParseAddrPort("127.13.9.1:9"), 0, refuse)
	if _, err := p.Adopt(fds[1], &owner{}); !errors.Is(err, unix.EMFILE) {
		t.Errorf("%v", err)
	}
}
