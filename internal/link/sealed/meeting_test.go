package sealed

import (
	"bytes"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"softrdma/internal/link/trust"
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
				return trust.ErrUntrusted
			}
			return nil
		},
	}
}

// A host is a meeting at an address, with what it reported.
type host struct {
	*Meeting
	at netip.AddrPort

	mu       sync.Mutex
	reported []reason.Reason
}

func open(t *testing.T, at string, cfg *tls.Config) *host {
	t.Helper()
	socket, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort(at)))
	if err != nil {
		t.Fatal(err)
	}
	return openOn(t, socket, cfg)
}

// openOn opens a meeting on a socket.
func openOn(t *testing.T, socket net.PacketConn, cfg *tls.Config) *host {
	t.Helper()
	h := &host{at: addrPort(socket.LocalAddr())}
	var err error
	h.Meeting, err = meet(NewEndpoint(h.at, 1000), h.at.Addr(), socket, cfg, Tell{Report: func(d reason.Detail) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.reported = append(h.reported, d.Reason)
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return h
}

// has reports whether a host has reported exactly these reasons.
func (h *host) has(want ...reason.Reason) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Equal(h.reported, want)
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
	if err := b.Introduce(a.at, true); err != nil {
		t.Fatal(err)
	}
	b.until(t, "no call to a caller that has proved its address", func(e *Endpoint) bool { return len(e.peers[a.at].sessions) == 1 })
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
	cut.hangUp()
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
	m := callAs(t, b.at.Addr(), a.at, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{Protocol}})
	const forged = 0x666
	var o [offerLen]byte
	(&offer{spi: forged, port: 1000, device: 4791}).put(o[:])
	out, err := m.OpenUniStream()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := out.Write(o[:]); err != nil {
		t.Fatal(err)
	}
	in, err := m.AcceptUniStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(in, o[:]); err != nil { // the answer
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

// callAs connects to a meeting from an address.
func callAs(t *testing.T, from netip.Addr, to netip.AddrPort, cfg *tls.Config) *quic.Conn {
	t.Helper()
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0)))
	if err != nil {
		t.Fatal(err)
	}
	tr := &quic.Transport{Conn: &port{PacketConn: c, report: func(reason.Detail) {}}, ConnectionIDGenerator: ids{}}
	m, err := tr.Dial(t.Context(), net.UDPAddrFromAddrPort(to), cfg, settings(keepAlive))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = m.CloseWithError(0, "")
		_ = errors.Join(tr.Close(), c.Close())
	})
	return m
}

// Peers that do not trust each other, or do not listen, are refused by name, at once and without being called again.
func TestMeetingsThatFail(t *testing.T) {
	a, b := open(t, "127.37.1.3:4791", trusting(t, 1)), open(t, "127.37.1.4:4791", trusting(t, 2))
	if err := a.Introduce(b.at, true); !named(err, reason.TLSTrust) {
		t.Errorf("another secret: %v", err)
	}
	b.until(t, "a report of the caller", func(*Endpoint) bool { return b.has(reason.TLSHandshake) })
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

// A refusal before the handshake is complete proves nothing: an attacker who sees the first packet of the call can forge it, and
// another server may have the port for a while. A peer that was met is called again.
func TestAttackRefusalWithoutProofDoesNotEndTheCalls(t *testing.T) {
	cfg := trusting(t, 1)
	a, b := open(t, "127.37.1.20:4791", cfg), open(t, "127.37.1.21:4791", cfg)
	if err := a.Introduce(b.at, true); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	stranger := cfg.Clone()
	stranger.NextProtos = []string{"another protocol"}
	socket, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(b.at))
	if err != nil {
		t.Fatal(err)
	}
	server := &quic.Transport{Conn: socket}
	if _, err := server.Listen(stranger, nil); err != nil {
		t.Fatal(err)
	}
	a.until(t, "a refusal", func(*Endpoint) bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return slices.Contains(a.reported, reason.TLSHandshake)
	})
	if err := errors.Join(server.Close(), socket.Close()); err != nil {
		t.Fatal(err)
	}
	b = open(t, "127.37.1.21:4791", cfg)
	a.until(t, "a meeting with the peer that is back", func(e *Endpoint) bool { return e.peers[b.at].met(true) })
}

// A caller proves who it is each time: the device gives no tickets to resume with.
func TestMeetingsAreNotResumed(t *testing.T) {
	cfg := trusting(t, 1)
	a := open(t, "127.37.1.10:4791", cfg)
	own := cfg.Clone()
	own.NextProtos, own.ClientSessionCache, own.ServerName = []string{Protocol}, tls.NewLRUClientSessionCache(0), "a"
	for range 2 {
		m := callAs(t, netip.MustParseAddr("127.37.1.11"), a.at, own)
		in, err := m.AcceptUniStream(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		out, err := m.OpenUniStream()
		if err != nil {
			t.Fatal(err)
		}
		var o [offerLen]byte
		(&offer{spi: 1, port: 1000, device: 4791}).put(o[:])
		if _, err := out.Write(o[:]); err != nil {
			t.Fatal(err)
		}
		var got [2 * offerLen]byte // the second one comes behind the ticket
		if _, err := io.ReadFull(in, got[:]); err != nil {
			t.Fatal(err)
		}
		if m.ConnectionState().TLS.DidResume {
			t.Error("the connection was resumed")
		}
		_ = m.CloseWithError(0, "")
	}
}

// A caller that has gone to another address with its connection (RFC 9000 9) does not keep the earlier one from the
// next caller there.
func TestAttackCallerKeepsNoAddressThatItHasLeft(t *testing.T) {
	cfg := trusting(t, 1)
	cfg.ClientAuth, cfg.VerifyConnection = tls.RequestClientCert, nil
	a := open(t, "127.37.1.12:4791", cfg)
	at, anyone := netip.MustParseAddrPort("127.37.1.13:4791"), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{Protocol}}
	call := func() (*quic.Conn, func(spi uint32)) {
		m := callAs(t, at.Addr(), a.at, anyone)
		out, err := m.OpenUniStream()
		if err != nil {
			t.Fatal(err)
		}
		return m, func(spi uint32) {
			var o [offerLen]byte
			(&offer{spi: spi, port: 1000, device: at.Port()}).put(o[:])
			if _, err := out.Write(o[:]); err != nil {
				t.Fatal(err)
			}
			a.until(t, "the key of the caller", func(e *Endpoint) bool { return a.keyFor(e, &host{at: at}) == spi })
		}
	}
	m, offers := call()
	offers(0x111)
	socket, err := net.ListenPacket("udp", "127.37.1.14:0")
	if err != nil {
		t.Fatal(err)
	}
	tr := &quic.Transport{Conn: &port{PacketConn: socket, report: func(reason.Detail) {}}, ConnectionIDGenerator: ids{}}
	defer func() { _ = errors.Join(tr.Close(), socket.Close()) }()
	other, err := m.AddPath(tr)
	if err == nil {
		err = other.Probe(t.Context())
	}
	if err == nil {
		err = other.Switch()
	}
	if err != nil {
		t.Fatal(err)
	}
	offers(0x112)
	_, offers = call()
	offers(0x222)
}
