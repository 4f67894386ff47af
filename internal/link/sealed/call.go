package sealed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/quic-go/quic-go"

	"softrdma/internal/link"
	"softrdma/internal/link/trust"
	"softrdma/internal/reason"
)

// The application's error codes with which connections end.
const (
	codeClosed  quic.ApplicationErrorCode = iota // by the device, or for a later connection
	codeRefused                                  // for the reason in the text
)

// A call is a connection to a peer, with a goroutine of its own.
type call struct {
	line
	m       *Meeting
	conn    *quic.Conn
	at      netip.AddrPort   // what was dialled, or who calls
	out     *quic.SendStream // of the offers to the peer
	peer    *peer            // nil until an accepted connection has brought an offer
	waited  bool             // of a call that was dialled: Introduce waits for its result
	session *session         // nil until there is one
	why     error            // this end has ended the connection; of the endpoint's mu
}

// dial is the goroutine of a connection that is dialled.
func (c *call) dial() {
	conn, err := c.m.open(c.at)
	if err != nil {
		c.ended(err)
		return
	}
	ctx, cancel := context.WithCancelCause(c.m.ended)
	defer cancel(nil)
	socket := &caller{datagrams: &datagrams{conn}, peer: conn.RemoteAddr(), failed: cancel}
	defer conn.Close()
	err = c.meet(ctx, socket)
	c.ended(c.named(err, socket.heard.Load()))
}

// meet connects, and then listens to the peer until one of both ends the connection.
func (c *call) meet(ctx context.Context, socket *caller) error {
	t := &quic.Transport{Conn: socket, ConnectionIDGenerator: ids{}}
	defer t.Close()
	if err := c.connect(ctx, t); err != nil {
		return err
	}
	var err error
	if c.out, err = c.conn.OpenUniStream(); err != nil {
		return c.over(err)
	}
	c.identity = identityOf(c.conn)
	e := c.m.e
	e.mu.Lock()
	c.session = e.begin(c.peer, true, c.line)
	e.issue(c.session)
	e.mu.Unlock()
	return c.over(c.listen())
}

// connect connects to the peer. One that has too many callers is called again after a while.
func (c *call) connect(ctx context.Context, t *quic.Transport) (err error) {
	ctx, cancel := context.WithTimeout(ctx, meetTimeout)
	defer cancel()
	cfg := trust.Dialling(c.m.security, c.m.e.address, c.at.Addr())
	for pause := redialAfter; ; pause *= 2 {
		c.conn, err = t.Dial(ctx, net.UDPAddrFromAddrPort(c.at), cfg, settings(keepAlive))
		err = told(err)
		var no *quic.TransportError
		if !errors.As(err, &no) || no.ErrorCode != quic.ConnectionRefused {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", syscall.ECONNREFUSED, err)
		}
	}
}

// answer is the goroutine of a connection that was accepted, whose handshake is not complete.
func (c *call) answer() {
	err := c.welcome()
	if err == nil {
		err = c.listen()
	}
	c.ended(c.over(err))
}

// welcome gives a caller a key, and waits until it has proved who it is.
func (c *call) welcome() (err error) {
	if c.out, err = c.conn.OpenUniStream(); err != nil {
		return err
	}
	e := c.m.e
	e.mu.Lock()
	c.session = e.promise(c.at.Addr(), c.line)
	e.mu.Unlock()
	select {
	case <-c.conn.HandshakeComplete():
		c.m.lobby.greet(c.conn)
		return nil
	case <-c.conn.Context().Done():
		return context.Cause(c.conn.Context())
	case <-c.m.ended.Done():
		return link.ErrClosed
	}
}

// over closes the connection and returns why it has ended. If this end has refused what the peer has sent, err says why.
func (c *call) over(err error) error {
	c.m.e.mu.Lock()
	if c.why != nil {
		err = c.why
	}
	c.m.e.mu.Unlock()
	var named *reason.Error
	if !errors.As(err, &named) {
		_ = c.conn.CloseWithError(codeClosed, "")
		return told(context.Cause(c.conn.Context()))
	}
	_ = c.conn.CloseWithError(codeRefused, named.Detail.Reason.String())
	return err
}

// listen takes the peer's offers until the connection ends.
func (c *call) listen() error {
	defer context.AfterFunc(c.m.ended, func() { _ = c.conn.CloseWithError(codeClosed, "") })()
	defer time.AfterFunc(meetTimeout, c.expire).Stop()
	in, err := c.conn.AcceptUniStream(c.m.ended)
	if err != nil {
		return err
	}
	var b [offerLen]byte
	for {
		if _, err := io.ReadFull(in, b[:]); err != nil {
			return err
		}
		if err := c.offered(b[:]); err != nil {
			return err
		}
	}
}

// expire ends a connection on which the peer has not made an offer.
func (c *call) expire() {
	c.m.e.mu.Lock()
	defer c.m.e.mu.Unlock()
	if c.session.out == nil {
		c.refuse(reason.Detail{Reason: reason.PSPSilent, Expected: uint64(c.at.Port()), Found: uint64(meetTimeout.Milliseconds())}.Err())
	}
}

// offer sends an offer. The stream has room for many.
func (c *call) offer(b []byte) {
	if err := c.out.TryWriteAll(b); errors.Is(err, quic.ErrWouldBlock) {
		c.refuse(fmt.Errorf("the peer takes no offers: %w", syscall.ENOBUFS))
	}
}

// hangUp ends the connection.
func (c *call) hangUp() { c.m.start(func() { _ = c.conn.CloseWithError(codeClosed, "") }) }

// away reports whether the peer has another address by now than when it has called.
func (c *call) away() bool { return addrPort(c.conn.RemoteAddr()).Addr() != c.at.Addr() }

// refuse ends the connection for a reason. The caller holds the endpoint's mu.
func (c *call) refuse(why error) {
	if c.why == nil {
		c.why = why
	}
	c.hangUp()
}

// offered takes an offer.
func (c *call) offered(b []byte) error {
	o, err := parseOffer(b)
	if err != nil {
		return err
	}
	e := c.m.e
	if c.peer == nil {
		if err := c.admit(&o); err != nil {
			return err
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	admitted := !c.dialled || c.session.out != nil // an end that was dialled makes its first offer before it knows who calls
	if err := e.take(c.session, &o); err != nil {
		return err
	}
	p := c.peer
	p.heard = time.Now()
	if c.waited {
		c.waited, p.dialling = false, false
	}
	switch {
	case c.session.proved:
		if admitted {
			p.failures = 0
		}
		p.answer(nil)
	case p.proved && !p.met(true): // it seems to be back
		p.failures = 0
		c.m.dial(p)
	}
	return nil
}

// admit admits a peer that has called, has proved who it is and has made an offer.
func (c *call) admit(o *offer) error {
	proved := trust.Proved(c.conn.ConnectionState().TLS, c.m.security, c.at.Addr()) // takes a while: the endpoint is not locked
	e := c.m.e
	e.mu.Lock()
	defer e.mu.Unlock()
	c.session.identity = identityOf(c.conn)
	if err := e.admit(c.session, o, proved); err != nil {
		return err
	}
	c.peer = c.session.peer
	c.m.lobby.leave(c.conn)
	return nil
}

// identityOf returns the peer's public key.
func identityOf(c *quic.Conn) string {
	if s := c.ConnectionState().TLS; len(s.PeerCertificates) > 0 {
		return string(s.PeerCertificates[0].RawSubjectPublicKeyInfo)
	}
	return ""
}

// ended notes that a connection has ended or could not be made.
func (c *call) ended(err error) {
	if c.m.ended.Err() == nil {
		c.m.refuse(err)
	}
	e := c.m.e
	e.mu.Lock()
	defer e.mu.Unlock()
	switch s := c.session; {
	case s == nil:
	case s.peer == nil:
		e.revoke(s)
	default:
		e.end(s)
	}
	if c.dialled {
		c.failed(err)
	}
}

// failed gives the waiters of a call its result. A peer that was dialled and met, now or before, is
// dialled again, as it may be unable to dial itself, unless it does not trust this end. Only a refusal after this end has
// verified the peer counts: before that, an attacker who sees a packet of the call can forge one. The caller holds the endpoint's mu.
func (c *call) failed(err error) {
	p := c.peer
	if c.waited {
		p.dialling = false
		p.answer(err)
	}
	if rejected(err) && c.session != nil {
		if why := (*link.Failure)(nil); errors.As(err, &why) {
			p.refuses(c.session, why)
		}
		return
	}
	if p.dialling {
		return
	}
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

// named gives the error of a connection that was dialled a reason. Heard reports whether the peer has sent anything. A
// peer that does not trust this end may say so after its offer. Its refusal wraps ECONNREFUSED.
func (c *call) named(err error, heard bool) error {
	var named *reason.Error
	if err == nil || errors.As(err, &named) || !c.waited && !rejected(err) {
		return err
	}
	if f := trust.Refusal(err); f != nil {
		return f
	}
	var alert *quic.TransportError
	var no syscall.Errno
	d := reason.Detail{Reason: reason.PSPPeer, Expected: uint64(c.at.Port()), Found: uint64(syscall.ETIMEDOUT)}
	switch {
	case errors.Is(err, net.ErrClosed) && c.m.ended.Err() != nil:
		return link.ErrClosed
	case errors.As(err, &no):
		d.Found = uint64(no)
	case heard && errors.As(err, &alert):
		d = failed(c.conn)
		if rejected(err) {
			err = fmt.Errorf("%w: %w", syscall.ECONNREFUSED, err)
		}
	}
	return &link.Failure{Detail: d, Err: err}
}

// rejected reports whether a connection has ended because the peer's handshake failed.
func rejected(err error) bool {
	var alert *quic.TransportError
	return errors.As(err, &alert) && alert.Remote && alert.ErrorCode.IsCryptoError()
}

// told quotes and truncates what a peer has written into the end of a connection, because it can write anything there.
func told(err error) error {
	const short = "%.80q"
	var transport *quic.TransportError
	var application *quic.ApplicationError
	switch {
	case errors.As(err, &transport) && transport.Remote && transport.ErrorMessage != "":
		e := *transport
		e.ErrorMessage = fmt.Sprintf(short, e.ErrorMessage)
		return &e
	case errors.As(err, &application) && application.Remote && application.ErrorMessage != "":
		e := *application
		e.ErrorMessage = fmt.Sprintf(short, e.ErrorMessage)
		return &e
	}
	return err
}

// failed returns the reason of a handshake that failed.
func failed(c *quic.Conn) reason.Detail {
	d := reason.Detail{Reason: reason.TLSHandshake}
	if c != nil {
		s := c.ConnectionStats()
		d.Expected, d.Found = s.BytesSent, s.BytesReceived
	}
	return d
}
