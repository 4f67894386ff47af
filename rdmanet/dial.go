package rdmanet

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"

	"softrdma/rdmacm"
	"softrdma/rdmanet/internal/rsocket"
	"softrdma/verbs"
)

// A Dialer says how to connect. The zero value is right for most programs.
type Dialer struct {
	Options

	// Timeout bounds how long a dial takes, beside the context; 0 means no
	// bound but rdmacm's own, which is more than a minute.
	Timeout time.Duration

	// LocalAddr is the local address, a *net.TCPAddr; nil is by the host's
	// routing, and any port.
	LocalAddr net.Addr

	// Device is the device to use; nil is the local address's.
	Device *verbs.Device

	// Protocol is what the local address's device speaks: RoCE, verbs.IWARP or
	// verbs.RoCEv1.
	// A Device speaks what it speaks. Both ends speak the same.
	Protocol verbs.Protocol

	// TLS, of iWARP, makes the connection TLS, between devices of softrdma: see
	// rdmacm.Dialer. http and others need no other TLS then.
	TLS *tls.Config

	// RemoteUDPPort is the UDP port of the peer's device; 0 means 4791, where
	// all but a softrdma device opened on another one receive.
	RemoteUDPPort uint16

	// TOS is the type of service of the packets.
	TOS uint8
}

// Dial connects to "host:port". The network is "rdma", or "rdma4" or "rdma6"
// for one family of addresses; "tcp", "tcp4" and "tcp6" mean the same, for
// programs that know no other.
func Dial(network, address string) (net.Conn, error) {
	return new(Dialer).Dial(network, address)
}

// DialContext connects to "host:port", as Dial. It is what
// http.Transport.DialContext wants.
func DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return new(Dialer).DialContext(ctx, network, address)
}

// Dial connects to "host:port".
func (d *Dialer) Dial(network, address string) (net.Conn, error) {
	return d.DialContext(context.Background(), network, address)
}

// DialContext connects to "host:port", trying the addresses of a name one after
// the other. The error of one that nobody listens on is
// syscall.ECONNREFUSED, of one that does not answer syscall.EHOSTUNREACH; both
// wrap rdmacm's error. The connection is a *Conn.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if d.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d.Timeout)
		defer cancel()
	}
	c, err := d.dial(ctx, network, address)
	if err != nil {
		return nil, d.dialError(network, address, err)
	}
	return c, nil
}

func (d *Dialer) dial(ctx context.Context, network, address string) (*Conn, error) {
	list, err := resolve(ctx, network, address)
	if err != nil {
		return nil, err
	}
	var first error
	for _, at := range list {
		c, err := d.connect(ctx, at)
		if err == nil {
			return c, nil
		}
		if first == nil {
			first = err
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, first
}

// connect connects to one address.
func (d *Dialer) connect(ctx context.Context, at string) (*Conn, error) {
	local, err := addrPort(d.LocalAddr)
	if err != nil {
		return nil, err
	}
	cm := rdmacm.Dialer{Device: d.Device, Protocol: d.Protocol, TLS: d.TLS, Local: local, RemoteUDPPort: d.RemoteUDPPort, TOS: d.TOS}
	e, err := cm.Resolve(ctx, at)
	if err != nil {
		return nil, err
	}
	c, err := prepare(e, &d.Options, e.Close)
	if err != nil {
		return nil, err
	}
	l, err := e.Connect(ctx, param(c))
	if err != nil {
		return nil, errors.Join(err, c.undo(e.Close))
	}
	peer, err := rsocket.ParseConnData(l.PrivateData())
	if err != nil {
		return nil, errors.Join(err, c.undo(l.Close))
	}
	c.start(&peer, l, tcpAddr(l.LocalAddr()), tcpAddr(l.RemoteAddr()))
	return c, nil
}

// An end is rdmacm's Endpoint or Request.
type end interface {
	Device() *verbs.Device
	CreateQP(pd *verbs.PD, cfg verbs.QPConfig) (*verbs.QP, error)
}

// prepare makes a connection with its queue pair on an end, which shut gives up
// when that fails.
func prepare(e end, o *Options, shut func() error) (*Conn, error) {
	dev := e.Device()
	if dev == nil {
		return nil, errors.Join(fmt.Errorf("prepare the connection: %w", verbs.ErrClosed), shut())
	}
	c, err := newConn(dev, o)
	if err != nil {
		return nil, errors.Join(err, shut())
	}
	qp, err := e.CreateQP(c.pd, c.qpConfig())
	if err != nil {
		return nil, errors.Join(err, shut(), c.discard())
	}
	if err = c.attach(qp); err != nil {
		return nil, errors.Join(err, shut(), c.discard())
	}
	return c, nil
}

// undo gives up a connection that was never started, after its queue pair,
// which shut gives up.
func (c *Conn) undo(shut func() error) error { return errors.Join(shut(), c.discard()) }

// param is the parameters of a connection. Neither end issues READs or atomics, but
// over iWARP the devices probe each other by one zero-length READ at a time.
func param(c *Conn) rdmacm.ConnParam {
	depth := rdmacm.Zero
	if c.sends {
		depth = 1
	}
	return rdmacm.ConnParam{
		PrivateData: c.connData(), FlowControl: true,
		ResponderResources: depth, InitiatorDepth: depth,
	}
}

// family takes a network apart: bits is 32 or 128, or 0 for both families.
func family(network string) (bits int, err error) {
	switch strings.TrimSuffix(strings.TrimSuffix(network, "4"), "6") {
	case "rdma", "tcp":
		switch network[len(network)-1] {
		case '4':
			return 32, nil
		case '6':
			return 128, nil
		}
		return 0, nil
	}
	return 0, net.UnknownNetworkError(network)
}

// resolve finds the addresses that an address means: IPv4 before IPv6, because
// a name of both is most often that of an IPv4 network.
func resolve(ctx context.Context, network, address string) ([]string, error) {
	bits, err := family(network)
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	var all []netip.Addr
	switch a, err := netip.ParseAddr(host); {
	case err == nil:
		all = []netip.Addr{a}
	case host == "":
		all = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}
	default:
		if all, err = net.DefaultResolver.LookupNetIP(ctx, "ip", host); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(all, func(a, b netip.Addr) int { return a.Unmap().BitLen() - b.Unmap().BitLen() })
	var list []string
	for _, a := range all {
		if a = a.Unmap(); bits == 0 || a.BitLen() == bits {
			list = append(list, net.JoinHostPort(a.String(), port))
		}
	}
	if len(list) == 0 {
		return nil, &net.AddrError{Err: "no suitable address found for network " + network, Addr: host}
	}
	return list, nil
}

// addrPort reads an address that the program gave.
func addrPort(a net.Addr) (netip.AddrPort, error) {
	switch a := a.(type) {
	case nil:
		return netip.AddrPort{}, nil
	case *net.TCPAddr:
		if a == nil {
			return netip.AddrPort{}, nil
		}
		p := a.AddrPort()
		return netip.AddrPortFrom(p.Addr().Unmap(), p.Port()), nil
	}
	return netip.AddrPort{}, &net.AddrError{Err: "expected a *net.TCPAddr", Addr: a.String()}
}

func tcpAddr(a netip.AddrPort) net.Addr { return net.TCPAddrFromAddrPort(a) }

// dialError gives an error of a dial the shape and the errno that package net
// would.
func (d *Dialer) dialError(network, address string, err error) error {
	var rejected *rdmacm.RejectedError
	var unreachable *rdmacm.UnreachableError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		err = timeout{err}
	case errors.As(err, &rejected):
		err = fmt.Errorf("%w: %w", syscall.ECONNREFUSED, err)
	case errors.As(err, &unreachable) && !errors.As(unreachable, new(syscall.Errno)):
		err = fmt.Errorf("%w: %w", syscall.EHOSTUNREACH, err)
	}
	op := &net.OpError{Op: "dial", Net: network, Source: d.LocalAddr, Err: err}
	if a, e := netip.ParseAddrPort(address); e == nil {
		op.Addr = tcpAddr(a)
	}
	return op
}

// A timeout is an error whose Timeout is true.
type timeout struct{ error }

func (timeout) Timeout() bool   { return true }
func (timeout) Temporary() bool { return true }

// Unwrap gives the error.
func (t timeout) Unwrap() error { return t.error }
