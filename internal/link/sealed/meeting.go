package sealed

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"

	"softrdma/internal/link"
	"softrdma/internal/reason"
)

// Protocol is the ALPN name of the connections by which devices agree on keys.
const Protocol = "softrdma-psp"

const (
	// meetTimeout is how long a peer that was dialled may take for its offer.
	meetTimeout = 10 * time.Second

	// rotateEvery is how often the master key changes.
	rotateEvery = 8 * time.Hour

	// maxStrangers bounds the accepted connections on which no offer has come. One more replaces the oldest.
	maxStrangers = 256

	// A connection that was lost is dialled again after redialAfter, twice as long after each failure, and
	// given up after redials failures.
	redialAfter = 100 * time.Millisecond
	redials     = 10
)

// A Meeting makes the keys of an endpoint and its peers known to each other, by the connections of a
// link of streams with TLS. It listens on the TCP port that has the number of the device's UDP port, where
// peers expect it. One goroutine uses the streams.
type Meeting struct {
	e        *Endpoint
	streams  link.Streams
	listener link.Listener
	report   func(reason.Detail)
	done     chan struct{}
	rotation *time.Timer
	timeout  time.Duration // meetTimeout

	mu     sync.Mutex
	todo   []func() // for the goroutine
	closed bool

	strangers []*call // accepted, oldest first
}

var _ link.Introducer = (*Meeting)(nil)

// meet begins to listen. The streams belong to the meeting. Report is called for each connection that is refused, by
// the meeting's goroutine.
func meet(e *Endpoint, streams link.Streams, report func(reason.Detail)) (*Meeting, error) {
	m := &Meeting{e: e, streams: streams, report: report, done: make(chan struct{}), timeout: meetTimeout}
	var err error
	if m.listener, err = streams.Listen(e.device, 0, m); err != nil {
		return nil, err
	}
	m.rotation = time.AfterFunc(rotateEvery, m.rotate)
	go m.run()
	return m, nil
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
	err := m.streams.Close()
	<-m.done
	m.e.mu.Lock()
	defer m.e.mu.Unlock()
	for _, p := range m.e.peers {
		p.dialling = false
		p.answer(link.ErrClosed)
	}
	return err
}

// Introduce implements link.Introducer.
func (m *Meeting) Introduce(at netip.AddrPort, prove bool) error {
	if at.Addr().IsMulticast() {
		return errGroup(at.Addr())
	}
	m.e.mu.Lock()
	p, err := m.e.peer(at)
	if err != nil || p.met(prove) {
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

// dial has the goroutine dial a peer, unless it does. The caller holds the endpoint's mu.
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
		at = netip.AddrPortFrom(a.WithZone(m.streams.Local().Addr().Zone()), at.Port())
	}
	p.dialling = m.do(func() {
		c := &call{m: m, dialled: true, peer: p, at: at}
		var err error
		if c.stream, err = m.streams.Dial(0, at, 0, c); err != nil {
			m.e.mu.Lock()
			c.failed(err)
			m.e.mu.Unlock()
			return
		}
		time.AfterFunc(m.timeout, func() { m.do(c.expire) })
	})
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

// do has the goroutine call f. It reports false if the meeting is closed.
func (m *Meeting) do(f func()) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false
	}
	m.todo = append(m.todo, f)
	m.streams.Wake()
	return true
}

func (m *Meeting) run() {
	defer close(m.done)
	var ready [64]link.Readiness
	for m.streams.Wait(-1) == nil {
		m.mu.Lock()
		todo := m.todo
		m.todo = nil
		m.mu.Unlock()
		for _, f := range todo {
			f()
		}
		for {
			n, err := m.streams.Ready(ready[:])
			if err != nil {
				return
			}
			for _, r := range ready[:n] {
				switch c := r.Owner.(type) {
				case *Meeting:
					m.accept()
				case *call:
					c.progress()
				}
			}
			if n < len(ready) {
				break
			}
		}
	}
}

// accept takes connections whose handshakes have ended.
func (m *Meeting) accept() {
	for {
		c := &call{m: m}
		var err error
		c.stream, err = m.listener.Accept(c)
		switch {
		case errors.Is(err, link.ErrWouldBlock) || errors.Is(err, link.ErrClosed):
			return
		case err != nil:
			m.refuse(err)
			continue
		}
		c.at, c.connected = c.stream.Remote(), true
		if len(m.strangers) >= maxStrangers {
			m.strangers[0].close()
		}
		m.strangers = append(m.strangers, c)
	}
}

// refuse reports the reason of an error.
func (m *Meeting) refuse(err error) {
	if e := (*reason.Error)(nil); errors.As(err, &e) {
		m.report(e.Detail)
	}
}

// A call is a connection to a peer. The meeting's goroutine uses it.
type call struct {
	m         *Meeting
	stream    link.Stream
	dialled   bool
	at        netip.AddrPort // what was dialled, or who calls
	peer      *peer          // nil until an accepted connection has brought an offer
	connected bool
	closed    bool
	session   *session // nil until there is one
	in        [offerLen]byte
	have      int
}

// progress reads what has come.
func (c *call) progress() {
	if c.closed {
		return
	}
	err := c.connect()
	for err == nil {
		var n int
		if n, err = c.stream.Read([][]byte{c.in[c.have:]}); err != nil {
			break
		}
		if c.have += n; c.have == offerLen {
			c.have = 0
			err = c.offered()
		}
	}
	if !errors.Is(err, link.ErrWouldBlock) {
		c.end(err)
	}
}

// expire ends a connection that was dialled if the peer has not made an offer.
func (c *call) expire() {
	if !c.closed && (c.session == nil || c.session.out == nil) {
		c.end(reason.Detail{Reason: reason.PSPSilent, Expected: uint64(c.at.Port()), Found: uint64(c.m.timeout.Milliseconds())}.Err())
	}
}

// end ends the connection.
func (c *call) end(err error) {
	c.m.refuse(err)
	c.close()
	c.m.e.mu.Lock()
	defer c.m.e.mu.Unlock()
	if c.session != nil {
		c.m.e.end(c.session)
	}
	c.failed(err)
}

// connect makes the first offer to a peer that was dialled, when the handshake has ended.
func (c *call) connect() error {
	if c.connected {
		return nil
	}
	if err := c.stream.Connected(); err != nil {
		return err
	}
	c.connected = true
	c.m.e.mu.Lock()
	defer c.m.e.mu.Unlock()
	c.begin(true)
	return nil
}

// begin begins the session. The caller holds the endpoint's mu.
func (c *call) begin(proved bool) {
	c.session = c.m.e.begin(c.peer, proved, func(b []byte) {
		b = slices.Clone(b)
		c.m.do(func() { c.write(b) })
	})
	c.m.e.issue(c.session)
}

// write sends an offer. The buffers of a connection have room for many.
func (c *call) write(b []byte) {
	if c.closed {
		return
	}
	if n, err := c.stream.Write([][]byte{b}); n < len(b) && (err == nil || errors.Is(err, link.ErrWouldBlock)) {
		c.end(fmt.Errorf("the peer takes no offers: %w", syscall.ENOBUFS))
	}
}

// offered takes an offer.
func (c *call) offered() error {
	o, err := parseOffer(c.in[:])
	if err != nil {
		return err
	}
	e, proved := c.m.e, false
	if p, ok := c.stream.(link.Prover); ok && c.session == nil {
		proved = p.Proved() // takes a while: the endpoint is not locked
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if c.session == nil {
		c.m.strangers = slices.DeleteFunc(c.m.strangers, func(x *call) bool { return x == c })
		p, err := e.caller(c.at.Addr(), &o)
		if err != nil {
			return err
		}
		if err := p.mayBegin(); err != nil {
			return err
		}
		for _, s := range p.sessions { // TCP finds out whether the peer still has the earlier ones
			if s.live {
				s.tell(s.offer[:])
			}
		}
		c.peer = p
		c.begin(proved)
	}
	if err := e.take(c.session, &o); err != nil {
		return err
	}
	p := c.peer
	if c.dialled {
		p.dialling = false
	}
	switch {
	case c.session.proved:
		p.failures = 0
		p.answer(nil)
	case p.proved && !p.met(true): // it seems to be back
		p.failures = 0
		c.m.dial(p)
	}
	return nil
}

// failed notes that a connection has ended or could not be made. A peer that was dialled and met, now or before, is
// dialled again, as it may be unable to. The caller holds the endpoint's mu.
func (c *call) failed(err error) {
	p := c.peer
	if !c.dialled {
		return
	}
	p.dialling = false
	if c.session == nil {
		var no syscall.Errno
		var named *reason.Error
		if errors.As(err, &no) && !errors.As(err, &named) {
			err = &reason.Error{Detail: reason.Detail{Reason: reason.PSPPeer, Expected: uint64(c.at.Port()), Found: uint64(no)}, Cause: err}
		}
	}
	p.answer(err)
	if p.failures++; p.out.Load() == nil || p.failures > redials || p.retrying {
		return
	}
	p.retrying = true
	time.AfterFunc(redialAfter<<p.failures, func() {
		c.m.e.mu.Lock()
		defer c.m.e.mu.Unlock()
		p.retrying = false
		if !p.gone.Load() && !p.met(true) {
			c.m.dial(p)
		}
	})
}

// close closes the connection.
func (c *call) close() {
	if !c.closed {
		c.closed = true
		_ = c.stream.Close()
		c.m.strangers = slices.DeleteFunc(c.m.strangers, func(x *call) bool { return x == c })
	}
}
