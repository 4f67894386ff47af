package sealed

import (
	"bytes"
	"crypto/tls"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go"

	"softrdma/internal/link/trust"
	"softrdma/internal/reason"
)

// A path carries datagrams between sockets, each after the same time. Its tests run on virtual time.
type path struct {
	delay time.Duration

	mu      sync.Mutex
	sockets map[string]*memorySocket
	next    uint16
	closed  bool // nothing gets through
}

type datagram struct {
	from net.Addr
	b    []byte
}

// A memorySocket is a socket on a path.
type memorySocket struct {
	p     *path
	local *net.UDPAddr
	peer  *net.UDPAddr // nil if it is not connected
	in    chan datagram
	until chan time.Time
	done  chan struct{}
	once  sync.Once
}

func (p *path) listen(at netip.AddrPort, peer *net.UDPAddr) *memorySocket {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at.Port() == 0 {
		p.next++
		at = netip.AddrPortFrom(at.Addr(), 40000+p.next)
	}
	s := &memorySocket{p: p, local: net.UDPAddrFromAddrPort(at), peer: peer, in: make(chan datagram, 1000), until: make(chan time.Time, 1), done: make(chan struct{})}
	p.sockets[at.String()] = s
	return s
}

func (s *memorySocket) ReadFrom(b []byte) (int, net.Addr, error) {
	select {
	case x := <-s.in:
		return copy(b, x.b), x.from, nil
	case <-s.until: // of the past
		return 0, nil, os.ErrDeadlineExceeded
	case <-s.done:
		return 0, nil, net.ErrClosed
	}
}

func (s *memorySocket) Read(b []byte) (int, error) {
	n, _, err := s.ReadFrom(b)
	return n, err
}

func (s *memorySocket) WriteTo(b []byte, to net.Addr) (int, error) {
	p := s.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if dst := p.sockets[to.String()]; dst != nil && !p.closed {
		x := datagram{s.local, bytes.Clone(b)}
		time.AfterFunc(p.delay, func() { dst.in <- x })
	}
	return len(b), nil
}

func (s *memorySocket) Write(b []byte) (int, error) { return s.WriteTo(b, s.peer) }

func (s *memorySocket) Close() error {
	s.once.Do(func() { close(s.done) })
	return nil
}

func (s *memorySocket) LocalAddr() net.Addr  { return s.local }
func (s *memorySocket) RemoteAddr() net.Addr { return s.peer }

func (s *memorySocket) SetReadDeadline(t time.Time) error {
	if !t.IsZero() {
		select {
		case s.until <- t:
		default:
		}
	}
	return nil
}

func (s *memorySocket) SetDeadline(t time.Time) error    { return s.SetReadDeadline(t) }
func (s *memorySocket) SetWriteDeadline(time.Time) error { return nil }

// meetings makes two meetings on a path.
func meetings(t *testing.T, p *path, cfgs [2]*tls.Config) (hs [2]*host) {
	p.sockets = map[string]*memorySocket{}
	for i, at := range addrs {
		hs[i] = openOn(t, p.listen(at, nil), cfgs[i])
		hs[i].open = p.opener(at.Addr())
	}
	return hs
}

// opener returns a function that opens sockets of an address.
func (p *path) opener(at netip.Addr) func(to netip.AddrPort) (net.Conn, error) {
	return func(to netip.AddrPort) (net.Conn, error) {
		return p.listen(netip.AddrPortFrom(at, 0), net.UDPAddrFromAddrPort(to)), nil
	}
}

// kill makes the sockets of an address silent.
func (p *path) kill(host netip.Addr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for at := range p.sockets {
		if strings.HasPrefix(at, host.String()+":") {
			delete(p.sockets, at)
		}
	}
}

// close makes the path lose everything, or nothing.
func (p *path) close(closed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = closed
}

const oneWay = 50 * time.Millisecond

// The first meeting takes the caller one round trip, and the peer half of one more: then each of them has a key of the
// other.
func TestMeetingTakesOneRoundTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := trusting(t, 1)
		hs := meetings(t, &path{delay: oneWay}, [2]*tls.Config{cfg, cfg})
		var at time.Time
		hs[1].e.admitted = func() { at = time.Now() }
		begun := time.Now()
		if err := hs[0].Introduce(hs[1].at, true); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(begun); d > 2*oneWay+oneWay/10 {
			t.Errorf("the caller has a key after %v, expected a round trip of %v", d, 2*oneWay)
		}
		time.Sleep(oneWay + oneWay/10)
		hs[1].e.mu.Lock()
		if d := at.Sub(begun); d > 3*oneWay+oneWay/10 || hs[1].keyFor(hs[1].e, hs[0]) == 0 {
			t.Errorf("the peer has a key after %v, expected %v", d, 3*oneWay)
		}
		hs[1].e.mu.Unlock()
		begun = time.Now()
		for range 3 {
			if err := hs[0].Introduce(hs[1].at, true); err != nil || time.Since(begun) != 0 {
				t.Errorf("the next connection waits for %v: %v", time.Since(begun), err)
			}
		}
		time.Sleep(freshFor)
		begun = time.Now()
		if err := hs[0].Introduce(hs[1].at, true); err != nil || time.Since(begun) > 2*oneWay+oneWay/10 {
			t.Errorf("a peer that was silent is called in %v: %v", time.Since(begun), err)
		}
		time.Sleep(4 * oneWay)
		for i, h := range hs {
			h.e.mu.Lock()
			live := 0
			for _, s := range h.e.peers[hs[1-i].at].sessions {
				if s.live {
					live++
				}
			}
			if live != 1 {
				t.Errorf("%d connections are open, expected the last one", live)
			}
			h.e.mu.Unlock()
		}
		for _, h := range hs {
			if err := h.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// A peer that takes the connection and says nothing is given up in time, and called again the next time.
func TestMeetingWithASilentPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, p := trusting(t, 1), &path{delay: oneWay, sockets: map[string]*memorySocket{}}
		a, at := openOn(t, p.listen(addrs[0], nil), cfg), addrs[1]
		a.open = p.opener(a.at.Addr())
		own := cfg.Clone()
		own.NextProtos = []string{Protocol}
		silent := &quic.Transport{Conn: p.listen(at, nil)}
		l, err := silent.Listen(own, settings(0))
		if err != nil {
			t.Fatal(err)
		}
		calls := make(chan struct{}, 100)
		var accepting sync.WaitGroup
		accepting.Go(func() {
			for {
				if _, err := l.Accept(t.Context()); err != nil {
					return
				}
				calls <- struct{}{}
			}
		})
		for range 2 {
			begun := time.Now()
			if err := a.Introduce(at, true); !named(err, reason.PSPSilent) || time.Since(begun) != meetTimeout+2*oneWay {
				t.Errorf("after %v: %v", time.Since(begun), err)
			}
			<-calls
		}
		a.until(t, "an end of the attempts", func(e *Endpoint) bool {
			p := e.peers[plain(at)]
			return !p.dialling && len(p.waiting) == 0
		})
		for _, err := range []error{a.Close(), l.Close(), silent.Close(), silent.Conn.Close()} {
			if err != nil {
				t.Error(err)
			}
		}
		accepting.Wait()
	})
}

// A peer that says nothing at all is given up.
func TestMeetingWithNoPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := trusting(t, 1)
		p := &path{delay: oneWay}
		hs := meetings(t, p, [2]*tls.Config{cfg, cfg})
		p.close(true)
		begun := time.Now()
		if err := hs[0].Introduce(hs[1].at, true); !named(err, reason.PSPPeer) || time.Since(begun) > handshakeTimeout+time.Second {
			t.Errorf("after %v: %v", time.Since(begun), err)
		}
		p.close(false)
		if err := hs[0].Introduce(hs[1].at, true); err != nil {
			t.Error(err)
		}
		for _, h := range hs {
			if err := h.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// A device that was killed says nothing, and another one has its address. Whichever of both calls the other, they have
// keys of each other at once, and the earlier connection is forgotten.
func TestMeetingWithADeviceThatWasKilled(t *testing.T) {
	for _, back := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			cfg := trusting(t, 1)
			p := &path{delay: oneWay}
			hs := meetings(t, p, [2]*tls.Config{cfg, cfg})
			if err := hs[0].Introduce(hs[1].at, true); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * oneWay)
			p.kill(addrs[1].Addr())
			again := openOn(t, p.listen(addrs[1], nil), cfg)
			again.open = p.opener(addrs[1].Addr())
			time.Sleep(freshFor)
			from, to := hs[0], again
			if back {
				from, to = again, hs[0]
			}
			if err := from.Introduce(to.at, true); err != nil {
				t.Fatal(err)
			}
			time.Sleep(oneWay + oneWay/10)
			hs[0].e.mu.Lock()
			again.e.mu.Lock()
			for _, x := range [2][2]*host{{hs[0], again}, {again, hs[0]}} {
				if in := x[1].e.inbound[x[0].keyFor(x[0].e, x[1])]; in == nil || !in.accepted.Load() {
					t.Errorf("called by the new device: %v: no key of the peer's", back)
				}
			}
			again.e.mu.Unlock()
			hs[0].e.mu.Unlock()
			time.Sleep(2 * idleTimeout)
			hs[0].e.mu.Lock()
			if p := hs[0].e.peers[addrs[1]]; !p.met(true) {
				t.Error("the connection of the new device has ended")
			}
			hs[0].e.mu.Unlock()
			for _, h := range []*host{hs[0], hs[1], again} {
				if err := h.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// A caller that the peer does not trust has the peer's key before it hears of that. It counts the refusal, and does not call
// again by itself.
func TestMeetingThatThePeerRefusesIsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := trusting(t, 1)
		strict := cfg.Clone()
		strict.VerifyConnection = func(tls.ConnectionState) error { return trust.ErrUntrusted }
		hs := meetings(t, &path{delay: oneWay}, [2]*tls.Config{cfg, strict})
		if err := hs[0].Introduce(hs[1].at, true); err != nil && !named(err, reason.TLSHandshake) {
			t.Error(err)
		}
		time.Sleep(10 * time.Minute)
		for i, want := range []reason.Reason{reason.TLSHandshake, reason.TLSTrust} {
			if h := hs[i]; !h.has(want) {
				h.mu.Lock()
				t.Errorf("%v has reported %v, expected %v once", h.at, h.reported, want)
				h.mu.Unlock()
			}
		}
		for _, h := range hs {
			if err := h.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// A peer that has no place for a caller has made an offer before it says so. It is called a few times again.
func TestPeerWithoutAPlaceIsNotCalledForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := trusting(t, 1)
		hs := meetings(t, &path{delay: oneWay}, [2]*tls.Config{cfg, cfg})
		p, err := hs[1].e.peer(addrs[0])
		if err != nil {
			t.Fatal(err)
		}
		for range maxSessions {
			hs[1].e.begin(p, true, quiet(true, "another"))
		}
		if err := hs[0].Introduce(hs[1].at, true); err != nil {
			t.Error(err)
		}
		time.Sleep(10 * time.Minute)
		hs[1].mu.Lock()
		if n := len(hs[1].reported); n < 2 || n > redials+1 || hs[1].reported[0] != reason.PSPPeers {
			t.Errorf("%d were refused, expected 2 to %d; the first for %v", n, redials+1, hs[1].reported[0])
		}
		hs[1].mu.Unlock()
		for _, h := range hs {
			if err := h.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}
