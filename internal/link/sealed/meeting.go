package sealed

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"softrdma/internal/link"
	"softrdma/internal/link/trust"
	"softrdma/internal/reason"
)

// Protocol is the ALPN name of the connections by which devices agree on keys.
const Protocol = "softrdma-psp"

const (
	// handshakeTimeout is how long a peer that is dialled may be silent, and meetTimeout how long it may take for its
	// first offer.
	handshakeTimeout = 5 * time.Second
	meetTimeout      = 10 * time.Second

	// A connection is lost when nothing was heard for idleTimeout. The end that has dialled sends something every keepAlive.
	idleTimeout = 30 * time.Second
	keepAlive   = 10 * time.Second

	// rotateEvery is how often the master key changes.
	rotateEvery = 8 * time.Hour

	// freshFor is how long a peer is believed to be the one that it was. A peer that was killed says nothing, and another
	// one may have its place.
	freshFor = time.Second

	// A connection that was lost is dialled again after redialAfter, twice as long after each failure, and
	// given up after redials failures.
	redialAfter = 100 * time.Millisecond
	redials     = 10
)

// A Meeting makes the keys of an endpoint and its peers known to each other, by QUIC connections. It listens on the
// device's UDP port, where peers expect it. A peer that is dialled sends its offer with its part of the handshake, before it knows who
// calls; the caller sends its own with its proof. So the caller has a key after one round trip.
type Meeting struct {
	e        *Endpoint
	zone     string // of the device's address
	security *tls.Config
	tell     Tell
	listener *quic.EarlyListener
	socket   *quic.Transport
	rotation *time.Timer
	ended    context.Context
	end      context.CancelFunc
	work     sync.WaitGroup
	lobby    lobby
	open     func(to netip.AddrPort) (net.Conn, error) // a socket that is connected to a peer

	mu     sync.Mutex
	closed bool
}

// Tell has functions that are told why peers are refused. Any goroutine may call them.
type Tell struct {
	Refused func(peer netip.AddrPort, err error) // a caller whose handshake failed; may be nil
	Report  func(reason.Detail)                  // anything
}

var _ link.Introducer = (*Meeting)(nil)

// meet begins to listen on a socket, which belongs to the meeting from then on.
func meet(e *Endpoint, local netip.Addr, socket net.PacketConn, security *tls.Config, tell Tell) (*Meeting, error) {
	m := &Meeting{e: e, zone: local.Zone(), security: trust.Complete(security, Protocol), tell: tell}
	m.ended, m.end = context.WithCancel(context.Background())
	m.lobby.refuse, m.lobby.count = m.refuseCaller, m.refuse
	m.open = func(to netip.AddrPort) (net.Conn, error) {
		return net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(local, 0)), net.UDPAddrFromAddrPort(to))
	}
	m.socket = &quic.Transport{
		Conn:                             &port{PacketConn: socket, sealed: e.port, report: tell.Report},
		ConnectionIDGenerator:            ids{},
		DisableVersionNegotiationPackets: true,
		VerifySourceAddress:              m.lobby.busy,
		ConnContext:                      m.lobby.enter,
	}
	cfg := settings(0)
	cfg.GetConfigForClient = m.lobby.settings
	var err error
	if m.listener, err = m.socket.ListenEarly(m.security, cfg); err != nil {
		return nil, errors.Join(err, socket.Close())
	}
	m.rotation = time.AfterFunc(rotateEvery, m.rotate)
	m.work.Go(m.accept)
	return m, nil
}

// settings returns those of a connection. Each end opens one stream.
func settings(keepAlive time.Duration) *quic.Config {
	return &quic.Config{
		Versions: []quic.Version{quic.Version1}, HandshakeIdleTimeout: handshakeTimeout, MaxIdleTimeout: idleTimeout, KeepAlivePeriod: keepAlive,
		InitialStreamReceiveWindow: 1 << 14, MaxStreamReceiveWindow: 1 << 14, InitialConnectionReceiveWindow: 1 << 14, MaxConnectionReceiveWindow: 1 << 14,
		MaxIncomingStreams: -1, MaxIncomingUniStreams: 1,
		// The least that any path has to carry (RFC 9000 14).
		InitialPacketSize: 1200, DisablePathMTUDiscovery: true,
	}
}

func (m *Meeting) rotate() {
	m.e.Rotate()
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed {
		m.rotation.Reset(rotateEvery)
	}
}

// Close closes all connections. Calls of Introduce fail.
func (m *Meeting) Close() error {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.rotation.Stop()
	m.end()
	m.work.Wait()
	err := errors.Join(m.listener.Close(), m.socket.Close(), m.socket.Conn.Close())
	m.e.mu.Lock()
	defer m.e.mu.Unlock()
	for _, p := range m.e.peers {
		p.dialling = false
		p.answer(link.ErrClosed)
	}
	return err
}

// start runs f in a goroutine for which Close waits. It reports false if the meeting is closed.
func (m *Meeting) start(f func()) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false
	}
	m.work.Go(f)
	return true
}

// Introduce implements link.Introducer.
func (m *Meeting) Introduce(at netip.AddrPort, prove bool) error {
	if at.Addr().IsMulticast() {
		return errGroup(at.Addr())
	}
	m.e.mu.Lock()
	p, err := m.e.peer(at)
	if err != nil || p.met(prove) && (!prove || time.Since(p.heard) < freshFor) {
		m.e.mu.Unlock()
		return err
	}
	met := make(chan error, 1)
	p.waiting = append(p.waiting, met)
	p.failures = 0
	m.dial(p)
	m.e.mu.Unlock()
	if err = <-met; err == nil || !prove && p.out.Load() != nil {
		return nil
	}
	return fmt.Errorf("agree on keys with %v: %w", at, m.e.unmet(at, err))
}

// dial dials a peer, unless it is being dialled. The caller holds the endpoint's mu.
func (m *Meeting) dial(p *peer) {
	if p.dialling {
		return
	}
	if p.behind != nil {
		p.answer(m.e.errBehind(p.at))
		return
	}
	at := p.at
	if a := at.Addr(); a.IsLinkLocalUnicast() && a.Is6() {
		at = netip.AddrPortFrom(a.WithZone(m.zone), at.Port())
	}
	c := &call{m: m, peer: p, at: at, waited: true}
	c.line = line{dialled: true, tell: c.offer, hangUp: c.hangUp}
	p.dialled()
	p.dialling = m.start(c.dial)
	if !p.dialling {
		p.answer(link.ErrClosed)
	}
}

// answer ends all waits for a peer. The caller holds the endpoint's mu.
func (p *peer) answer(err error) {
	for _, w := range p.waiting {
		w <- err
	}
	p.waiting = nil
}

// accept takes connections whose handshakes have begun.
func (m *Meeting) accept() {
	for {
		conn, err := m.listener.Accept(m.ended)
		if err != nil {
			return
		}
		m.lobby.accept(conn)
		c := &call{m: m, conn: conn, at: addrPort(conn.RemoteAddr())}
		c.line = line{tell: c.offer, hangUp: c.hangUp, away: c.away}
		if !m.start(c.answer) {
			_ = conn.CloseWithError(codeClosed, "")
		}
	}
}

// refuseCaller reports why the handshake of a caller failed.
func (m *Meeting) refuseCaller(from netip.AddrPort, err error) {
	if m.ended.Err() != nil {
		return
	}
	m.refuse(err)
	if f := m.tell.Refused; f != nil {
		f(from, err)
	}
}

// refuse reports the reason of an error.
func (m *Meeting) refuse(err error) {
	if e := (*reason.Error)(nil); errors.As(err, &e) {
		m.tell.Report(e.Detail)
	}
}
