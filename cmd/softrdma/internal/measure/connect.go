package measure

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/rdmacm"
	"softrdma/verbs"
)

// connectLimit limits the time for connecting one queue pair.
const connectLimit = 10 * time.Second

// A Service is where a server's queue pairs listen in the connection manager. Only a
// client that knows the token is accepted.
type Service struct {
	Port  uint16 `json:"port"`
	Token uint64 `json:"token"`
}

// privateData returns the private data of the connection request for queue pair i.
func (v *Service) privateData(i int) []byte {
	b := binary.BigEndian.AppendUint64(nil, v.Token)
	return binary.BigEndian.AppendUint32(b, uint32(i))
}

// connections are the connections of one end's queue pairs. They are set up one after
// the other, so that events arrive in the expected order.
type connections struct {
	ch     *rdmacm.EventChannel
	listen *rdmacm.ID
	ids    []*rdmacm.ID
}

// close destroys the connections with their queue pairs.
func (l *connections) close() {
	for _, id := range l.ids {
		id.Destroy()
	}
	if l.listen != nil {
		l.listen.Destroy()
	}
	l.ch.Close()
}

// expect waits for an event of the given type.
func (l *connections) expect(ctx context.Context, what rdmacm.EventType) (rdmacm.Event, error) {
	for {
		v, err := l.ch.Next(ctx)
		switch {
		case err != nil && ctx.Err() != nil:
			return v, context.Cause(ctx)
		case err != nil:
			return v, err
		case v.Type == what:
			return v, nil
		case v.Type == rdmacm.EventConnectRequest: // of a later queue pair
			v.ID.Destroy()
		case v.Err != nil:
			return v, connectError(v.Err)
		default:
			return v, cli.PeerErrorf("connect: expected %v, found %v", what, v)
		}
	}
}

// connectError says that an attempt to connect has failed. A peer that TLS does not fit
// has been reached, and is there.
func connectError(err error) error {
	var why verbs.ReasonError
	if errors.As(err, &why) && strings.Contains(why.Reason(), "TLS") {
		return fmt.Errorf("connect: %w", err)
	}
	return cli.PeerErrorf("connect: %w", err)
}

// withConnectTimeout limits the time for setting up a connection.
func withConnectTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, connectLimit, cli.PeerErrorf("connection manager: the other end did not answer for %v", connectLimit))
}

// setRNRTimer sets the RNR timer that Connect sets without the connection manager.
func setRNRTimer(id *rdmacm.ID) error { return id.SetOption(rdmacm.OptionMinRNRTimer, 1) }

// deviceAddress names the device to the other end: by its address, which a connection manager
// there connects to, or as a port of a fabric.
func deviceAddress(dev *verbs.Device) string {
	if dev.Protocol() == verbs.InfiniBand {
		return cli.DeviceName(dev)
	}
	return dev.Addr().String()
}

// Hello returns the message that tells the client about this end. If the connection
// manager connects the queue pairs, they listen for the client from then on.
func (s *Side) Hello() (*Message, error) {
	m := &Message{Do: DoHello, Device: deviceAddress(s.Dev), Endpoints: s.Local, Memory: s.Memory()}
	if !s.Cfg.Managed {
		return m, nil
	}
	var err error
	m.Service, err = s.Listen()
	return m, err
}

// Listen begins to listen for the client's queue pairs.
func (s *Side) Listen() (v *Service, err error) {
	s.conns = &connections{ch: rdmacm.NewEventChannel()}
	if s.conns.listen, err = s.conns.ch.NewID(rdmacm.PortSpaceTCP); err != nil {
		return nil, err
	}
	id := s.conns.listen
	if err := id.UseDevice(s.Dev); err != nil {
		return nil, err
	}
	if err := id.Bind(netip.AddrPort{}); err != nil {
		return nil, err
	}
	if err := id.Listen(0); err != nil {
		return nil, err
	}
	var token [8]byte
	rand.Read(token[:])
	// JSON numbers are exact up to 53 bits.
	return &Service{Port: id.LocalAddr().Port(), Token: binary.BigEndian.Uint64(token[:]) >> 11}, nil
}

// Accept accepts the client's queue pairs in their order.
func (s *Side) Accept(ctx context.Context, v *Service) error {
	for i := range s.Cfg.QPs {
		if err := s.acceptOne(ctx, v, i); err != nil {
			return err
		}
	}
	return nil
}

func (s *Side) acceptOne(ctx context.Context, v *Service, i int) error {
	ctx, cancel := withConnectTimeout(ctx)
	defer cancel()
	for {
		e, err := s.conns.expect(ctx, rdmacm.EventConnectRequest)
		if err != nil {
			return err
		}
		if want := v.privateData(i); len(e.Conn.PrivateData) < len(want) || string(e.Conn.PrivateData[:len(want)]) != string(want) {
			if err := errors.Join(e.ID.Reject([]byte("this port is reserved for the client of a measurement")), e.ID.Destroy()); err != nil {
				return err
			}
			continue
		}
		s.conns.ids = append(s.conns.ids, e.ID)
		if err := setRNRTimer(e.ID); err != nil {
			return err
		}
		if err := s.createQP(e.ID); err != nil {
			return err
		}
		if err := e.ID.Accept(nil); err != nil {
			return err
		}
		_, err = s.conns.expect(ctx, rdmacm.EventEstablished)
		return err
	}
}

// createQP creates the queue pair of an id.
func (s *Side) createQP(id *rdmacm.ID) error {
	qp, err := id.CreateQP(s.pd, s.qpConfig())
	if err == nil {
		s.QPs = append(s.QPs, qp)
	}
	return err
}

// Dial connects the queue pairs to those that the server listens with. via is the
// address of the control connection, which has the zone of a link-local address.
func (s *Side) Dial(ctx context.Context, hello *Message, via netip.Addr) (err error) {
	dev, err := netip.ParseAddrPort(hello.Device)
	if err != nil || hello.Service == nil {
		return cli.PeerErrorf("the server does not support -R: expected a newer softrdma there")
	}
	to := netip.AddrPortFrom(dev.Addr().WithZone(via.Zone()), hello.Service.Port)
	s.conns = &connections{ch: rdmacm.NewEventChannel()}
	for i := range s.Cfg.QPs {
		if err := s.dialOne(ctx, hello.Service.privateData(i), to, dev.Port()); err != nil {
			return fmt.Errorf("queue pair %d of %d to %v: %w", i+1, s.Cfg.QPs, to, err)
		}
	}
	return nil
}

func (s *Side) dialOne(ctx context.Context, private []byte, to netip.AddrPort, udpPort uint16) error {
	ctx, cancel := withConnectTimeout(ctx)
	defer cancel()
	id, err := s.conns.ch.NewID(rdmacm.PortSpaceTCP)
	if err != nil {
		return err
	}
	s.conns.ids = append(s.conns.ids, id)
	if err := errors.Join(id.UseDevice(s.Dev), setRNRTimer(id), id.SetOption(rdmacm.OptionRemoteUDPPort, int(udpPort))); err != nil {
		return err
	}
	if err := id.ResolveAddr(netip.AddrPort{}, to); err != nil {
		return err
	}
	if _, err := s.conns.expect(ctx, rdmacm.EventAddrResolved); err != nil {
		return err
	}
	if err := id.ResolveRoute(); err != nil {
		return err
	}
	if _, err := s.conns.expect(ctx, rdmacm.EventRouteResolved); err != nil {
		return err
	}
	if err := s.createQP(id); err != nil {
		return err
	}
	if err := id.Connect(&rdmacm.ConnParam{PrivateData: private}); err != nil {
		return err
	}
	_, err = s.conns.expect(ctx, rdmacm.EventEstablished)
	return err
}
