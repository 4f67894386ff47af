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

// A Dialer holds the options of dialing. The zero value is right for most programs.
type Dialer struct {
	Options

	// Timeout bounds how long a dial takes, in addition to the context; 0 means
	// only rdmacm's own limit of more than a minute.
	Timeout time.Duration

	// LocalAddr is the local address, a *net.TCPAddr; nil means that the host's
	// routing chooses the address, with any port.
	LocalAddr net.Addr

	// Device is the device to use; nil means the device of the local address.
	Device *verbs.Device

	// Protocol is the protocol of the local address's device: RoCE, verbs.IWARP or
	// verbs.RoCEv1. It is ignored if Device is set. Both ends must use the same
	// protocol.
	Protocol verbs.Protocol

	// TLS, for RoCE v2 and iWARP, encrypts the connection. Both ends must be softrdma
	// devices: see rdmacm.Dialer. Programs then need no TLS of their own.
	TLS *tls.Config

	// RemoteUDPPort is the UDP port of the peer's device; 0 means 4791. Only a
	// softrdma device can have another one.
	RemoteUDPPort uint16

	// TOS is the type of service of the packets.
	TOS uint8
}

// Dial connects to "host:port". The network is "rdma", or "rdma4" or "rdma6" for
// one address family. "tcp", "tcp4" and "tcp6" mean the same, for programs that
// only know these.
func Dial(network, address string) (net.Conn, error) {
	return new(Dialer).Dial(network, address)
}

// DialContext connects to "host:port" as Dial does. It fits
// http.Transport.DialContext.
func DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return new(Dialer).DialContext(ctx, network, address)
}

// Dial connects to "host:port".
func (d *Dialer) Dial(network, address string) (net.Conn, error) {
	return d.DialContext(context.Background(), network, address)
}

// DialContext connects to "host:port" and tries the addresses of a name one after
// the other. The error wraps syscall.ECONNREFUSED if nothing listens or a peer that
// encrypts does not trust this end, syscall.EHOSTUNREACH if the peer does not answer, and
// rdmacm's error. The connection is a *Conn.
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

// An end is an Endpoint or a Request of rdmacm.
type end interface {
	Device() *verbs.Device
	CreateQP(pd *verbs.PD, cfg verbs.QPConfig) (*verbs.QP, error)
}

// prepare makes a connection and its queue pair on an end. If that fails it calls
// shut.
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

// undo frees a connection that was never started. It calls shut first to destroy
// the queue pair.
func (o *objects) undo(shut func() error) error { return errors.Join(shut(), o.discard()) }

// param returns the parameters of a connection. Neither end issues READs or
// atomics, but over iWARP one zero-length READ at a time: the devices probe each
// other, and an end of the stream proves that its data has arrived (proof.go).
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

// family returns the address family of a network: bits is 32 or 128, or 0 for both.
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

// resolve looks up an address. IPv4 comes before IPv6, because a name with both is
// usually that of an IPv4 network.
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

// addrPort converts an address that the program gave.
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

// dialError returns the error of a dial as a *net.OpError with the errno that
// package net would use.
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
