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

// A Dialer says how to connect. The zero value is right for most programs.
type Dialer struct {
	Device *verbs.Device // nil: by the host's routing, see the package

	// Protocol is what the device speaks that the host's routing gives: RoCE, or
	// verbs.IWARP. A Device speaks what it speaks.
	Protocol verbs.Protocol

	// TLS, of iWARP, makes the connection TLS: what verbs.Config.TLS says holds. The
	// device that the host's routing gives is opened with it, and all connections of
	// its address in this process have the same. With a Device it must be nil, or
	// the device's.
	TLS *tls.Config

	Local netip.AddrPort // local address and port in the port space; zero: by the host's routing, any port

	// RemoteUDPPort is the UDP port of the peer's device; 0 means 4791, where
	// all but a softrdma device opened on another one receive.
	RemoteUDPPort uint16

	PortSpace  PortSpace // 0 means PortSpaceTCP, of Lookup PortSpaceUDP
	TOS        uint8     // type of service of the packets: the upper six bits are the DSCP
	AckTimeout uint8     // the queue pair's timeout, 4.096 µs × 2^n; 0 as Linux: by the route
	ReuseAddr  bool      // share Local's port with others that set it

	// ResponseTimeout is how long an answer of the peer's is waited for, 4.096 µs
	// × 2^n, before the request is sent again, Retries how often it is. 0 means
	// as Linux: 20, which is 4.3 s, and 15 times.
	ResponseTimeout, Retries uint8

	// QP is what Dial makes the queue pair of. Type 0 is the port space's: RC,
	// in PortSpaceUDP UD. Without a SendCQ the connection gets completion
	// queues of its own, which Conn.SendCQ and RecvCQ give.
	QP verbs.QPConfig

	Param ConnParam // what Dial tells the peer
}

// DialConfig is what Dial takes.
type DialConfig = Dialer

// Dial connects a queue pair to "host:port". The connection is ready: the queue
// pair is in RTS.
func Dial(ctx context.Context, addr string, cfg DialConfig) (*Conn, error) {
	return cfg.Dial(ctx, addr)
}

// Dial connects a queue pair to "host:port", trying the addresses of a name one
// after the other. The error is that of the first: a *RejectedError,
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

// or is the first error of two.
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
// Param.PrivateData, and gives it together with an endpoint whose queue pair,
// made of QP, is in RTS: datagrams can be posted to it. Close the endpoint.
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

// Resolve finds the device by which "host:port" is reached, and sends nothing.
// Of a name with several addresses it takes the first that is reached.
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

// secure is UseTLS where there is a configuration.
func (id *ID) secure(cfg *tls.Config, p verbs.Protocol) error {
	switch {
	case cfg == nil:
		return nil
	case p != verbs.IWARP:
		return reason.NotSupported("TLS: expected an iWARP device, found %v", p)
	}
	return id.UseTLS(cfg)
}

// setOptions sets those that are not 0.
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
