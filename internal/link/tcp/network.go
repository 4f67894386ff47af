package tcp

import (
	"context"
	"crypto/tls"
	"net"
	"net/netip"

	"softrdma/internal/link"
)

// A Network makes TCP connections: the system does, or a stack of the program's own.
type Network interface {
	// Listen accepts connections to an address of the link. Port 0 chooses a free one.
	Listen(at netip.AddrPort) (Listener, error)

	// Dial connects to a peer, from an address of the link.
	Dial(ctx context.Context, from, to netip.AddrPort, tos uint8) (Conn, error)
}

// A Listener accepts connections.
type Listener interface {
	Accept() (Conn, error) // net.ErrClosed after Close
	Addr() net.Addr
	Close() error
}

// A Conn is a connection of a Network. Its errors wrap those of package syscall.
type Conn interface {
	net.Conn
	CloseWrite() error

	// SetLinger is that of net.TCPConn: with 0, Close resets the connection.
	SetLinger(seconds int) error

	// Segment is the maximum segment size, 0 if it is unknown.
	Segment() int

	// Prepare sets the options of the connection.
	Prepare(c *Config) error
}

// OpenNetwork opens a link over a network, with TLS unless security is nil. The link does not close the
// network.
func OpenNetwork(n Network, local netip.Addr, cfg Config, security *tls.Config) (link.Streams, error) {
	local, err := checkLocal(local)
	if err != nil {
		return nil, err
	}
	return newConns(n, local, cfg, security), nil
}

// system is the Network of the system.
type system struct{}

// Listen implements Network.
func (system) Listen(at netip.AddrPort) (Listener, error) {
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at))
	if err != nil {
		return nil, err
	}
	return systemListener{l}, nil
}

// Dial implements Network.
func (system) Dial(ctx context.Context, from, to netip.AddrPort, tos uint8) (Conn, error) {
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(from)}
	if from.Port() != 0 {
		d.Control = reuseAddress
	}
	c, err := d.DialContext(ctx, "tcp", to.String())
	if err != nil {
		return nil, err
	}
	raw := c.(*net.TCPConn)
	setTOS(raw, tos)
	return systemConn{raw}, nil
}

type systemListener struct{ *net.TCPListener }

// Accept implements Listener.
func (l systemListener) Accept() (Conn, error) {
	c, err := l.AcceptTCP()
	if err != nil {
		return nil, err
	}
	return systemConn{c}, nil
}

type systemConn struct{ *net.TCPConn }

// Segment implements Conn.
func (c systemConn) Segment() int { return segmentOf(c.TCPConn) }

// Prepare implements Conn.
func (c systemConn) Prepare(cfg *Config) error {
	if n := cfg.ReceiveBuffer; n > 0 {
		_ = c.SetReadBuffer(n) // limited by the system
	}
	if n := cfg.SendBuffer; n > 0 {
		_ = c.SetWriteBuffer(n)
	}
	widen(c.TCPConn, cfg)
	if err := setCongestion(c, cfg.Congestion); err != nil {
		return err
	}
	s := cfg.Silence()
	if s.Count == 0 {
		return nil
	}
	if err := c.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: s.Idle, Interval: s.Interval, Count: s.Count}); err != nil {
		return err
	}
	return setUserTimeout(c.TCPConn, s.Timeout)
}
