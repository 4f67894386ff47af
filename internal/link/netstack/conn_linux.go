package netstack

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	gtcp "gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/waiter"

	"softrdma/internal/link/tcp"
)

// errnos are the errors of the stack that the system has as well, by their texts.
var errnos = map[string]syscall.Errno{
	(&tcpip.ErrConnectionRefused{}).String():  syscall.ECONNREFUSED,
	(&tcpip.ErrConnectionReset{}).String():    syscall.ECONNRESET,
	(&tcpip.ErrConnectionAborted{}).String():  syscall.ECONNABORTED,
	(&tcpip.ErrClosedForSend{}).String():      syscall.EPIPE,
	(&tcpip.ErrTimeout{}).String():            syscall.ETIMEDOUT,
	(&tcpip.ErrHostUnreachable{}).String():    syscall.EHOSTUNREACH,
	(&tcpip.ErrNetworkUnreachable{}).String(): syscall.ENETUNREACH,
	(&tcpip.ErrPortInUse{}).String():          syscall.EADDRINUSE,
	(&tcpip.ErrBadLocalAddress{}).String():    syscall.EADDRNOTAVAIL,
	(&tcpip.ErrNotConnected{}).String():       syscall.ENOTCONN,
}

// named replaces the stack's error in a connection's error by the syscall.Errno that means the same.
func named(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Err != nil {
		if no, ok := errnos[op.Err.Error()]; ok {
			return &net.OpError{Op: op.Op, Net: op.Net, Source: op.Source, Addr: op.Addr, Err: no}
		}
	}
	return err
}

func full(at netip.AddrPort) tcpip.FullAddress {
	return tcpip.FullAddress{NIC: nic, Addr: tcpip.AddrFromSlice(at.Addr().AsSlice()), Port: at.Port()}
}

// endpoint makes an endpoint that is bound to an address of the stack.
func (s *Stack) endpoint(at netip.AddrPort, wq *waiter.Queue) (tcpip.Endpoint, error) {
	ep, why := s.stack.NewEndpoint(gtcp.ProtocolNumber, s.network, wq)
	if why != nil {
		return nil, failure(why)
	}
	ep.SocketOptions().SetReuseAddress(true)
	if why := ep.Bind(full(at)); why != nil {
		ep.Close()
		return nil, failure(why)
	}
	return ep, nil
}

// Dial implements tcp.Network.
func (s *Stack) Dial(ctx context.Context, from, to netip.AddrPort, tos uint8) (tcp.Conn, error) {
	wq := new(waiter.Queue)
	ep, err := s.endpoint(from, wq)
	if err != nil {
		return nil, err
	}
	option := tcpip.IPv4TOSOption
	if s.local.Is6() {
		option = tcpip.IPv6TrafficClassOption
	}
	_ = ep.SetSockOptInt(option, int(tos))
	entry, connected := waiter.NewChannelEntry(waiter.WritableEvents)
	wq.EventRegister(&entry)
	defer wq.EventUnregister(&entry)
	why := ep.Connect(full(to))
	if _, started := why.(*tcpip.ErrConnectStarted); started {
		select {
		case <-ctx.Done():
			ep.Close()
			return nil, ctx.Err()
		case <-connected:
		}
		why = ep.LastError()
	}
	if why != nil {
		ep.Close()
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: net.TCPAddrFromAddrPort(to), Err: failure(why)}
	}
	return s.conn(wq, ep), nil
}

// backlog is the number of connections that a listener holds which were not accepted.
const backlog = 1024

// Listen implements tcp.Network.
func (s *Stack) Listen(at netip.AddrPort) (tcp.Listener, error) {
	l := &listener{s: s, closed: make(chan struct{})}
	ep, err := s.endpoint(at, &l.wq)
	if err != nil {
		return nil, err
	}
	if why := ep.Listen(backlog); why != nil {
		ep.Close()
		return nil, failure(why)
	}
	l.ep = ep
	return l, nil
}

// A listener is a tcp.Listener.
type listener struct {
	s      *Stack
	wq     waiter.Queue
	ep     tcpip.Endpoint
	once   sync.Once
	closed chan struct{}
}

// Accept implements tcp.Listener.
func (l *listener) Accept() (tcp.Conn, error) {
	entry, ready := waiter.NewChannelEntry(waiter.ReadableEvents)
	l.wq.EventRegister(&entry)
	defer l.wq.EventUnregister(&entry)
	for {
		select {
		case <-l.closed:
			return nil, net.ErrClosed
		default:
		}
		ep, wq, why := l.ep.Accept(nil)
		switch why.(type) {
		case nil:
			return l.s.conn(wq, ep), nil
		case *tcpip.ErrWouldBlock:
			select {
			case <-ready:
			case <-l.closed:
			}
		default:
			return nil, failure(why)
		}
	}
}

// Addr implements tcp.Listener.
func (l *listener) Addr() net.Addr { return addrOf(l.ep.GetLocalAddress()) }

// Close implements tcp.Listener.
func (l *listener) Close() error {
	l.once.Do(func() {
		close(l.closed)
		l.ep.Close()
	})
	return nil
}

func addrOf(a tcpip.FullAddress, _ tcpip.Error) net.Addr {
	return &net.TCPAddr{IP: a.Addr.AsSlice(), Port: int(a.Port)}
}

// A conn is a tcp.Conn.
type conn struct {
	*gonet.TCPConn
	s  *Stack
	ep tcpip.Endpoint
}

func (s *Stack) conn(wq *waiter.Queue, ep tcpip.Endpoint) *conn {
	return &conn{gonet.NewTCPConn(wq, ep), s, ep}
}

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.TCPConn.Read(b)
	return n, named(err)
}

// Write implements net.Conn.
func (c *conn) Write(b []byte) (int, error) {
	n, err := c.TCPConn.Write(b)
	return n, named(err)
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.s.noteClosing(c.ep)
	return c.TCPConn.Close()
}

// SetLinger implements tcp.Conn.
func (c *conn) SetLinger(seconds int) error {
	c.ep.SocketOptions().SetLinger(tcpip.LingerOption{Enabled: seconds >= 0, Timeout: time.Duration(seconds) * time.Second})
	return nil
}

// Probe asks the peer of each connection to an address for a sign of life at once, because the stack there
// has ended. The host's port answers that it knows no such connection.
func (s *Stack) Probe(peer netip.Addr) {
	for _, e := range s.stack.RegisteredEndpoints() {
		ep, ok := e.(tcpip.Endpoint)
		if !ok {
			continue
		}
		if a, why := ep.GetRemoteAddress(); why != nil || a.Addr != tcpip.AddrFromSlice(peer.AsSlice()) {
			continue
		}
		soon := tcpip.KeepaliveIdleOption(time.Millisecond)
		ep.SocketOptions().SetKeepAlive(true)
		_ = ep.SetSockOpt(&soon)
	}
}

// timestampLen is the length of TCP's timestamps, which the stack uses (RFC 7323 3.2), with their padding.
const timestampLen = 12

// Segment implements tcp.Conn.
func (c *conn) Segment() int {
	ip := header.IPv4MinimumSize
	if c.s.local.Is6() {
		ip = header.IPv6MinimumSize
	}
	return c.s.mtu - ip - header.TCPMinimumSize - timestampLen
}

// Prepare implements tcp.Conn.
func (c *conn) Prepare(cfg *tcp.Config) error {
	o := c.ep.SocketOptions()
	o.SetDelayOption(false) // writes are complete messages
	if n := cfg.ReceiveBuffer; n > 0 {
		o.SetReceiveBufferSize(int64(n), true)
	}
	if n := cfg.SendBuffer; n > 0 {
		o.SetSendBufferSize(int64(n), true)
	}
	s := cfg.Silence()
	if s.Count == 0 {
		return nil
	}
	idle, interval, timeout := tcpip.KeepaliveIdleOption(s.Idle), tcpip.KeepaliveIntervalOption(s.Interval), tcpip.TCPUserTimeoutOption(s.Timeout)
	for _, set := range []tcpip.SettableSocketOption{&idle, &interval, &timeout} {
		if why := c.ep.SetSockOpt(set); why != nil {
			return failure(why)
		}
	}
	if why := c.ep.SetSockOptInt(tcpip.KeepaliveCountOption, s.Count); why != nil {
		return failure(why)
	}
	o.SetKeepAlive(true)
	return nil
}
