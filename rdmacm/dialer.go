package rdmacm

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/netip"

	"softrdma/internal/reason"
	"softrdma/verbs"
)

// A Dialer configures client connections. The zero value suits most programs.
type Dialer struct {
	Device *verbs.Device // nil: chosen by the host's routing, see the package documentation

	// Protocol is the protocol of the device that the host's routing chooses:
	// verbs.RoCE, verbs.IWARP, verbs.RoCEv1, or verbs.InfiniBand for a port of a fabric
	// that is open. It is ignored if Device is set.
	Protocol verbs.Protocol

	// TLS, of RoCE v2 and iWARP, encrypts the connection, as described at verbs.Config.TLS. The
	// device that the host's routing chooses is opened with it, and all connections
	// of its address in this process must have the same (SecurityError). If Device
	// is set it must be nil or the device's.
	TLS *tls.Config

	Local netip.AddrPort // local address and port in the port space; zero: chosen by the host's routing, any port

	// RemoteUDPPort is the UDP port of the peer's device; 0 means 4791. Only a
	// softrdma device can have another.
	RemoteUDPPort uint16

	PortSpace  PortSpace // 0 means PortSpaceTCP, for Lookup PortSpaceUDP
	TOS        uint8     // type of service of the packets: the upper six bits are the DSCP
	AckTimeout uint8     // the queue pair's timeout, 4.096 µs × 2^n; 0 as in Linux: chosen by the route
	ReuseAddr  bool      // share Local's port with others that set it

	// ResponseTimeout is how long to wait for an answer of the peer before the
	// request is sent again, 4.096 µs × 2^n, 1 to 31. Retries is how often it is
	// sent again, 1 to 15. 0 means Linux's values: 20, which is 4.3 s, and 15.
	ResponseTimeout, Retries uint8

	// QP is the configuration of the queue pair. Type 0 means the type of the port
	// space: RC, in PortSpaceUDP UD. Without a SendCQ the connection gets
	// separate completion queues: Conn.SendCQ and RecvCQ.
	QP verbs.QPConfig

	Param ConnParam // what Dial sends the peer
}

// Dial connects a queue pair to "host:port". The connection is ready: the queue
// pair is in RTS.
func Dial(ctx context.Context, addr string, d Dialer) (*Conn, error) {
	return d.Dial(ctx, addr)
}

// Dial connects a queue pair to "host:port". It tries the addresses of a name one
// after the other and returns the error of the first: a *RejectedError,
// *UnreachableError or *ResolveError, or one that wraps the context's.
func (d *Dialer) Dial(ctx context.Context, addr string) (*Conn, error) {
	list, err := destinations(ctx, addr)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", addr, err)
	}
	var first error
	for _, at := range list {
		c, err := d.dial(ctx, at)
		if err == nil {
			return c, nil
		}
		if first = or(first, err); ctx.Err() != nil {
			break
		}
	}
	return nil, fmt.Errorf("dial %s: %w", addr, first)
}

// or returns the first of two errors that is not nil.
func or(first, second error) error {
	if first != nil {
		return first
	}
	return second
}

func (d *Dialer) dial(ctx context.Context, at netip.AddrPort) (*Conn, error) {
	e, err := d.resolve(ctx, at)
	if err != nil {
		return nil, err
	}
	c, err := e.Connect(ctx, d.Param)
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return c, nil
}

// Lookup asks "host:port" for its datagram queue pair (PortSpaceUDP) with
// Param.PrivateData. It returns the answer and an endpoint whose queue pair is in
// RTS and can send datagrams there. The caller closes the endpoint.
func (d *Dialer) Lookup(ctx context.Context, addr string) (*Endpoint, UDParam, error) {
	ud := *d
	if ud.PortSpace == 0 {
		ud.PortSpace = PortSpaceUDP
	}
	e, err := ud.Resolve(ctx, addr)
	if err != nil {
		return nil, UDParam{}, fmt.Errorf("lookup %s: %w", addr, err)
	}
	_, err = e.CreateQP(nil, d.QP)
	var to UDParam
	if err == nil {
		to, err = e.Lookup(ctx, d.Param.PrivateData)
	}
	if err != nil {
		return nil, UDParam{}, errors.Join(fmt.Errorf("lookup %s: %w", addr, err), e.Close())
	}
	return e, to, nil
}

// Resolve finds the device by which the host reaches "host:port". It sends nothing.
// If a name has several addresses it takes the first that has a route.
func (d *Dialer) Resolve(ctx context.Context, addr string) (*Endpoint, error) {
	list, err := destinations(ctx, addr)
	if err != nil {
		return nil, err
	}
	var first error
	for _, at := range list {
		e, err := d.resolve(ctx, at)
		if err == nil {
			return e, nil
		}
		first = or(first, err)
	}
	return nil, first
}

func (d *Dialer) resolve(ctx context.Context, at netip.AddrPort) (*Endpoint, error) {
	ps := d.PortSpace
	if ps == 0 {
		ps = PortSpaceTCP
	}
	e := &Endpoint{end: newEnd(), cfg: d.QP}
	id, err := events.newID(ps, d.QP.Type, e.end.deliver)
	if err != nil {
		return nil, err
	}
	e.end.id = id
	if err := d.bind(ctx, e, at); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// bind finds the device of a new endpoint.
func (d *Dialer) bind(ctx context.Context, e *Endpoint, at netip.AddrPort) error {
	id := e.end.id
	if err := d.options(id); err != nil {
		return err
	}
	if err := id.ResolveAddr(d.Local, at); err != nil {
		return err
	}
	_, err := e.end.wait(ctx, "the address of")
	return err
}

func (d *Dialer) options(id *ID) error {
	protocol := d.Protocol
	if d.Device != nil {
		protocol = d.Device.Protocol()
		if err := id.UseDevice(d.Device); err != nil {
			return err
		}
	}
	if err := id.secure(d.TLS, protocol); err != nil {
		return err
	}
	return id.setOptions(map[Option]int{
		OptionTOS: int(d.TOS), OptionAckTimeout: int(d.AckTimeout), OptionRemoteUDPPort: int(d.RemoteUDPPort),
		OptionReuseAddr: one(d.ReuseAddr), OptionResponseTimeout: int(d.ResponseTimeout), OptionRetries: int(d.Retries),
		OptionProtocol: int(protocol),
	})
}

// secure calls UseTLS if there is a configuration.
func (id *ID) secure(cfg *tls.Config, p verbs.Protocol) error {
	switch {
	case cfg == nil:
		return nil
	case p != verbs.IWARP && p != verbs.RoCE:
		return reason.NotSupported("TLS: expected a device of RoCE v2 or iWARP, found %v", p)
	}
	return id.UseTLS(cfg)
}

// setOptions sets the options whose value is not 0.
func (id *ID) setOptions(of map[Option]int) error {
	for o, v := range of {
		if v == 0 {
			continue
		}
		if err := id.SetOption(o, v); err != nil {
			return err
		}
	}
	return nil
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}
