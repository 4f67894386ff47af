package rdmanet

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"

	"softrdma/rdmacm"
	"softrdma/rdmanet/internal/rsocket"
	"softrdma/verbs"
)

// A ListenConfig holds the options of listening. The zero value is right for most
// programs.
type ListenConfig struct {
	Options

	// Device is the device to listen on; nil means the device of the local address,
	// or all devices for an unspecified address.
	Device *verbs.Device

	Protocol verbs.Protocol // as in Dialer

	TLS *tls.Config // as in Dialer; if its ClientAuth is 0 the listener accepts any client

	// Backlog bounds the number of peers that wait to be accepted. More are
	// rejected. 0 means rdmacm.DefaultBacklog.
	Backlog int

	TOS       uint8 // type of service of the packets
	ReuseAddr bool  // share the port with other listeners that set it

	// Refused, if set, is called with the error for each peer that could not be
	// accepted. It may be called from several goroutines. Accept does not return
	// for such peers.
	Refused func(peer net.Addr, err error)
}

// Listen listens on "host:port". An empty host means every local address, and port
// 0 means an unused port. The networks are those of Dial.
func Listen(network, address string) (net.Listener, error) {
	return new(ListenConfig).Listen(context.Background(), network, address)
}

// A Listener accepts connections. It implements net.Listener.
type Listener struct {
	cfg  ListenConfig
	cm   *rdmacm.Listener
	ctx  context.Context
	stop context.CancelFunc
	all  sync.WaitGroup // serve and the handshakes

	ready    chan *Conn
	places   chan struct{} // one token for each handshake and each connection in ready
	deadline deadline

	mu  sync.Mutex
	err error // why Accept fails
}

// Listen listens on "host:port". The context bounds how long finding the
// address takes. The listener is a *Listener.
func (lc *ListenConfig) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	l, err := lc.listen(ctx, network, address)
	if err != nil {
		op := &net.OpError{Op: "listen", Net: network, Err: err}
		return nil, op
	}
	return l, nil
}

func (lc *ListenConfig) listen(ctx context.Context, network, address string) (*Listener, error) {
	bits, err := family(network)
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(address)
	switch {
	case err != nil:
		return nil, err
	case host == "" && bits == 32:
		address = net.JoinHostPort("0.0.0.0", port)
	case host != "":
		list, err := resolve(ctx, network, address)
		if err != nil {
			return nil, err
		}
		address = list[0]
	}
	l := &Listener{cfg: *lc}
	if l.cfg.Backlog <= 0 {
		l.cfg.Backlog = rdmacm.DefaultBacklog
	}
	l.cm, err = rdmacm.Listen(address, rdmacm.ListenConfig{
		Device: lc.Device, Protocol: lc.Protocol, TLS: lc.TLS, Backlog: l.cfg.Backlog, TOS: lc.TOS, ReuseAddr: lc.ReuseAddr, AfOnly: bits == 128,
	})
	if err != nil {
		return nil, err
	}
	l.deadline.init()
	l.ctx, l.stop = context.WithCancel(context.Background())
	l.ready, l.places = make(chan *Conn, l.cfg.Backlog), make(chan struct{}, l.cfg.Backlog)
	l.all.Go(l.serve)
	return l, nil
}

// serve starts a goroutine for each request, so that a peer that stays silent does
// not delay the others.
func (l *Listener) serve() {
	for {
		select {
		case l.places <- struct{}{}:
		case <-l.ctx.Done():
			l.end(errClosed)
			return
		}
		r, err := l.cm.Request(l.ctx)
		if err != nil {
			if l.ctx.Err() != nil || errors.Is(err, rdmacm.ErrClosed) {
				err = errClosed
			}
			l.end(err)
			return
		}
		l.all.Go(func() { l.handshake(r) })
	}
}

// end makes Accept return the error.
func (l *Listener) end(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
	}
	l.deadline.end()
}

func (l *Listener) handshake(r *rdmacm.Request) {
	peer := tcpAddr(r.RemoteAddr())
	c, err := l.accept(r)
	if err == nil {
		l.ready <- c // does not block, because the connection has a place
		return
	}
	<-l.places
	if l.cfg.Refused != nil && l.ctx.Err() == nil {
		l.cfg.Refused(peer, err)
	}
}

// accept answers a request with a connection.
func (l *Listener) accept(r *rdmacm.Request) (*Conn, error) {
	peer, err := rsocket.ParseConnData(r.PrivateData())
	if err != nil {
		return nil, errors.Join(err, r.Reject(nil))
	}
	c, err := prepare(r, &l.cfg.Options, func() error { return r.Reject(nil) })
	if err != nil {
		return nil, err
	}
	cm, err := r.Accept(l.ctx, param(c))
	if err != nil {
		return nil, errors.Join(err, c.discard()) // the queue pair is already destroyed
	}
	c.start(&peer, cm, tcpAddr(cm.LocalAddr()), tcpAddr(cm.RemoteAddr()))
	return c, nil
}

// Accept waits for the next connection, which is a *Conn.
func (l *Listener) Accept() (net.Conn, error) {
	c, err := l.next()
	if err != nil {
		return nil, &net.OpError{Op: "accept", Net: "rdma", Addr: l.Addr(), Err: err}
	}
	return c, nil
}

func (l *Listener) next() (*Conn, error) {
	if l.deadline.passed.Load() {
		return nil, errLate
	}
	select {
	case c := <-l.ready:
		<-l.places
		return c, nil
	default:
	}
	select {
	case c := <-l.ready:
		<-l.places
		return c, nil
	case <-l.deadline.context().Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return nil, l.err
	}
	return nil, errLate
}

// SetDeadline sets the deadline of Accept; zero means none.
func (l *Listener) SetDeadline(t time.Time) error {
	l.deadline.set(t)
	return nil
}

// Addr returns the local address and port, a *net.TCPAddr.
func (l *Listener) Addr() net.Addr { return tcpAddr(l.cm.Addr()) }

// LeftOut returns the addresses on which a listener on all local addresses could
// not listen, and why. Another process may use the device of an address.
func (l *Listener) LeftOut() []error { return l.cm.LeftOut() }

// Close stops listening: Accept returns net.ErrClosed. Peers that were not accepted
// yet are rejected or disconnected. Accepted connections are not affected.
func (l *Listener) Close() error {
	l.mu.Lock()
	if errors.Is(l.err, net.ErrClosed) {
		l.mu.Unlock()
		return &net.OpError{Op: "close", Net: "rdma", Addr: l.Addr(), Err: errClosed}
	}
	l.err = errClosed
	l.mu.Unlock()
	l.end(errClosed)
	l.stop()
	err := l.cm.Close()
	l.all.Wait()
	l.deadline.stop()
	for {
		select {
		case c := <-l.ready:
			// This peer was never served, so it must not read the end of a stream.
			err = errors.Join(err, c.SetLinger(0), c.Close())
			continue
		default:
		}
		break
	}
	if err != nil {
		return &net.OpError{Op: "close", Net: "rdma", Addr: l.Addr(), Err: err}
	}
	return nil
}
