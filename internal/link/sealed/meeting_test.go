package sealed

import (
	"bytes"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"softrdma/internal/link"
	"softrdma/internal/link/tcp"
	"softrdma/internal/reason"
)

// trusting returns a configuration with which ends trust the key of the seed only.
func trusting(t *testing.T, seed byte) *tls.Config {
	t.Helper()
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(nil, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, ClientAuth: tls.RequireAnyClientCert, InsecureSkipVerify: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			if k, ok := s.PeerCertificates[0].PublicKey.(ed25519.PublicKey); !ok || !k.Equal(key.Public()) {
				return tcp.ErrUntrusted
			}
			return nil
		},
	}
}

// A host is a meeting at an address, with the stream that it dialled last and what it reported.
type host struct {
	*Meeting
	at      netip.AddrPort
	dialled link.Stream

	mu       sync.Mutex
	reported []reason.Reason
}

// A dialler notes what a host dials.
type dialler struct {
	link.Streams
	h *host
}

func (d dialler) Dial(port uint16, dst netip.AddrPort, tos uint8, owner any) (s link.Stream, err error) {
	d.h.dialled, err = d.Streams.Dial(port, dst, tos, owner)
	return d.h.dialled, err
}

func open(t *testing.T, at string, cfg *tls.Config) *host {
	t.Helper()
	h := &host{at: netip.MustParseAddrPort(at)}
	streams, err := tcp.OpenTLS(h.at.Addr(), tcp.Config{Protocol: Protocol}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	h.Meeting, err = meet(NewEndpoint(h.at, 1000), dialler{streams, h}, func(d reason.Detail) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.reported = append(h.reported, d.Reason)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return h
}

// until waits for a condition on the endpoint of a host.
func (h *host) until(t *testing.T, what string, is func(e *Endpoint) bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		h.e.mu.Lock()
		ok := is(h.e)
		h.e.mu.Unlock()
		if ok {
			return
		}
	}
	t.Fatalf("%v: not in time: %s", h.at, what)
}

// keyFor returns the SPI with which a host sends to another, 0 if there is none.
func (h *host) keyFor(e *Endpoint, to *host) uint32 {
	if p := e.peers[to.at]; p != nil && p.out.Load() != nil {
		return p.out.Load().key.SPI()
	}
	return 0
}

// Both ends have a key after one of them has called, and another one after each rotation. A connection that is cut is
// made again, and the keys count until then.
func TestMeetingOutlivesItsConnection(t *testing.T) {
	cfg := trusting(t, 1)
	a, b := open(t, "127.37.1.1:4791", cfg), open(t, "127.37.1.2:4791", cfg)
	if err := a.Introduce(b.at, true); err != nil {
		t.Fatal(err)
	}
	b.until(t, "a key of the caller", func(e *Endpoint) bool { return b.keyFor(e, a) != 0 })
	if err := b.Introduce(a.at, true); err != nil || b.dialled != nil {
		t.Fatalf("the caller has proved its address and was called: %v", err)
	}
	for range 3 {
		var before uint32
		a.until(t, "a key", func(e *Endpoint) bool { before = a.keyFor(e, b); return before != 0 })
		b.e.Rotate()
		a.until(t, "another key after a rotation", func(e *Endpoint) bool { return a.keyFor(e, b) != before })
	}
	before := uint32(0)
	a.until(t, "a key", func(e *Endpoint) bool { before = a.keyFor(e, b); return before != 0 })
	var cut *session
	a.until(t, "a session", func(e *Endpoint) bool { cut = e.peers[b.at].sessions[0]; return true })
	a.do(func() { _ = a.dialled.ShutWrite() })
	a.until(t, "another connection", func(e *Endpoint) bool {
		if a.keyFor(e, b) == 0 {
			t.Error("there is no key meanwhile")
		}
		return !cut.live && e.peers[b.at].met(true)
	})
	a.until(t, "another key", func(e *Endpoint) bool { return a.keyFor(e, b) != before })
}

// An attacker that cuts the connection to a peer that has proved its address, and calls from that address, gets
// nothing that is for the peer. The peer is called again.
func TestAttackCallerInTheNameOfAPeer(t *testing.T) {
	t.Run("was dialled", func(t *testing.T) { callInTheNameOfAPeer(t, false) })
	t.Run("has called", func(t *testing.T) { callInTheNameOfAPeer(t, true) })
}

func callInTheNameOfAPeer(t *testing.T, calls bool) {
	cfg := trusting(t, 1)
	open1 := cfg.Clone()
	open1.ClientAuth = tls.RequestClientCert
	open1.VerifyConnection = func(s tls.ConnectionState) error {
		if len(s.PeerCertificates) == 0 {
			return nil
		}
		return cfg.VerifyConnection(s)
	}
	a, b := open(t, "127.37.1.8:4791", open1), open(t, "127.37.1.9:4791", cfg)
	dials, other := a, b
	if calls {
		dials, other = b, a
	}
	if err := dials.Introduce(other.at, true); err != nil {
		t.Fatal(err)
	}
	var proved *outbound
	a.until(t, "a key", func(e *Endpoint) bool { return a.keyFor(e, b) != 0 })
	a.until(t, "a key", func(e *Endpoint) bool { proved = e.peers[b.at].out.Load(); return true })
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	a.until(t, "an end of the connection", func(e *Endpoint) bool { return !e.peers[b.at].met(true) })
	d := tls.Dialer{NetDialer: &net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(b.at.Addr(), 0))}, Config: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{Protocol}}}
	m, err := d.DialContext(t.Context(), "tcp", a.at.String())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	const forged = 0x666
	var o [offerLen]byte
	(&offer{spi: forged, port: 1000, device: 4791}).put(o[:])
	if _, err := m.Write(o[:]); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(m, o[:]); err != nil { // the answer
		t.Fatal(err)
	}
	a.until(t, "the caller's offer", func(e *Endpoint) bool {
		return slices.ContainsFunc(e.peers[b.at].sessions, func(s *session) bool { return s.live && s.out != nil && s.out.key.SPI() == forged })
	})
	a.until(t, "the key that counts", func(e *Endpoint) bool {
		if out := e.peers[b.at].out.Load(); out != proved {
			t.Errorf("packets for the peer are sealed with key %#x, expected %#x", out.key.SPI(), proved.key.SPI())
		}
		return true
	})
	open(t, b.at.String(), cfg)
	if err := a.Introduce(b.at, false); err != nil {
		t.Fatal(err)
	}
	a.until(t, "the key of the peer", func(e *Endpoint) bool {
		out := e.peers[b.at].out.Load()
		return out != proved && out.key.SPI() != forged
	})
}

// A peer that takes the connection and says nothing is given up in time, and called again the next time.
func TestMeetingWithASilentPeer(t *testing.T) {
	cfg := trusting(t, 1)
	a, at := open(t, "127.37.1.6:4791", cfg), netip.MustParseAddrPort("127.37.1.7:4791")
	own := cfg.Clone()
	own.NextProtos = []string{Protocol}
	l, err := tls.Listen("tcp", at.String(), own)
	if err != nil {
		t.Fatal(err)
	}
	calls := make(chan struct{}, 100)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			calls <- struct{}{}
			go func() {
				defer c.Close()
				_, _ = io.Copy(io.Discard, c)
			}()
		}
	}()
	defer func() { <-done }()
	defer l.Close()
	a.timeout = time.Second
	for range 2 {
		if err := a.Introduce(at, true); !named(err, reason.PSPSilent) {
			t.Errorf("found %v", err)
		}
		<-calls
	}
	a.until(t, "an end of the attempts", func(e *Endpoint) bool {
		p := e.peers[plain(at)]
		return !p.dialling && len(p.waiting) == 0
	})
}

// Peers that do not trust each other, or do not listen, are refused by name, at once and without being called again.
func TestMeetingsThatFail(t *testing.T) {
	a, b := open(t, "127.37.1.3:4791", trusting(t, 1)), open(t, "127.37.1.4:4791", trusting(t, 2))
	if err := a.Introduce(b.at, true); !named(err, reason.TLSTrust) {
		t.Errorf("another secret: %v", err)
	}
	b.until(t, "a report of the caller", func(*Endpoint) bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.reported) == 1 && b.reported[0] == reason.TLSHandshake
	})
	if err := a.Introduce(netip.MustParseAddrPort("127.37.1.5:4791"), true); !named(err, reason.PSPPeer) {
		t.Errorf("no device there: %v", err)
	}
	if err := a.Introduce(netip.MustParseAddrPort("239.0.0.1:4791"), true); err == nil {
		t.Error("a group: expected an error")
	}
	a.until(t, "an end of the attempts", func(e *Endpoint) bool {
		for _, p := range e.peers {
			if p.dialling || len(p.waiting) > 0 {
				return false
			}
		}
		return true
	})
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if err := a.Introduce(b.at, true); err == nil {
		t.Error("a meeting that is closed: expected an error")
	}
}
