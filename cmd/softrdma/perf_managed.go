package main

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"softrdma/rdmacm"
)

// connectLimit is how long the connection of one queue pair may take.
const connectLimit = 10 * time.Second

// A perfService is where a server's queue pairs wait in the connection manager,
// for the client that shows the token.
type perfService struct {
	Port  uint16 `json:"port"`
	Token uint64 `json:"token"`
}

// private is the private data of the request for a queue pair.
func (v *perfService) private(i int) []byte {
	b := binary.BigEndian.AppendUint64(nil, v.Token)
	return binary.BigEndian.AppendUint32(b, uint32(i))
}

// perfLinks are the connections of one end's queue pairs. Its ids are used one
// after the other, so that events come in the order that is expected.
type perfLinks struct {
	ch     *rdmacm.EventChannel
	listen *rdmacm.ID
	ids    []*rdmacm.ID
}

// close gives up the connections with their queue pairs.
func (l *perfLinks) close() {
	for _, id := range l.ids {
		id.Destroy()
	}
	if l.listen != nil {
		l.listen.Destroy()
	}
	l.ch.Close()
}

// expect waits for an event, which must be what.
func (l *perfLinks) expect(ctx context.Context, what rdmacm.EventType) (rdmacm.Event, error) {
	for {
		v, err := l.ch.Next(ctx)
		switch {
		case err != nil && ctx.Err() != nil:
			return v, context.Cause(ctx)
		case err != nil:
			return v, err
		case v.Type == what:
			return v, nil
		case v.Type == rdmacm.EventConnectRequest: // not its turn
			v.ID.Destroy()
		case v.Err != nil:
			return v, peerErrorf("connect: %w", v.Err)
		default:
			return v, peerErrorf("connect: expected %v, found %v", what, v)
		}
	}
}

// within bounds a connection's time.
func within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, connectLimit, peerErrorf("connection manager: the other end did not answer for %v", connectLimit))
}

// tune gives an id what ConnectConfig gives queue pairs that are connected here.
func tune(id *rdmacm.ID) error { return id.SetOption(rdmacm.OptionMinRNRTimer, 1) }

// offer begins to listen for the client's queue pairs.
func (s *side) offer() (v *perfService, err error) {
	s.links = &perfLinks{ch: rdmacm.NewEventChannel()}
	if s.links.listen, err = s.links.ch.NewID(rdmacm.PortSpaceTCP); err != nil {
		return nil, err
	}
	id := s.links.listen
	if err := id.UseDevice(s.dev); err != nil {
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
	// A token that every reader of JSON keeps whole.
	return &perfService{Port: id.LocalAddr().Port(), Token: binary.BigEndian.Uint64(token[:]) >> 11}, nil
}

// answer accepts the client's queue pairs, in their order.
func (s *side) answer(ctx context.Context, v *perfService) error {
	for i := range s.cfg.QPs {
		if err := s.answerOne(ctx, v, i); err != nil {
			return err
		}
	}
	return nil
}

func (s *side) answerOne(ctx context.Context, v *perfService, i int) error {
	ctx, cancel := within(ctx)
	defer cancel()
	for {
		e, err := s.links.expect(ctx, rdmacm.EventConnectRequest)
		if err != nil {
			return err
		}
		if want := v.private(i); len(e.Conn.PrivateData) < len(want) || string(e.Conn.PrivateData[:len(want)]) != string(want) {
			if err := errors.Join(e.ID.Reject([]byte("this port is for the client of a measurement")), e.ID.Destroy()); err != nil {
				return err
			}
			continue
		}
		s.links.ids = append(s.links.ids, e.ID)
		if err := tune(e.ID); err != nil {
			return err
		}
		if err := s.create(e.ID); err != nil {
			return err
		}
		if err := e.ID.Accept(nil); err != nil {
			return err
		}
		_, err = s.links.expect(ctx, rdmacm.EventEstablished)
		return err
	}
}

// create makes the queue pair of an id.
func (s *side) create(id *rdmacm.ID) error {
	qp, err := id.CreateQP(s.pd, s.qpConfig())
	if err == nil {
		s.qps = append(s.qps, qp)
	}
	return err
}

// call connects the queue pairs to those that the server offers. via is where
// the server was found: it tells the zone of a link-local address.
func (s *side) call(ctx context.Context, hello *controlMessage, via netip.Addr) (err error) {
	dev, err := netip.ParseAddrPort(hello.Device)
	if err != nil || hello.Service == nil {
		return peerErrorf("the server offers no connection through the connection manager: expected a softrdma that knows -R there")
	}
	to := netip.AddrPortFrom(dev.Addr().WithZone(via.Zone()), hello.Service.Port)
	s.links = &perfLinks{ch: rdmacm.NewEventChannel()}
	for i := range s.cfg.QPs {
		if err := s.callOne(ctx, hello.Service.private(i), to, dev.Port()); err != nil {
			return fmt.Errorf("queue pair %d of %d to %v: %w", i+1, s.cfg.QPs, to, err)
		}
	}
	return nil
}

func (s *side) callOne(ctx context.Context, private []byte, to netip.AddrPort, udpPort uint16) error {
	ctx, cancel := within(ctx)
	defer cancel()
	id, err := s.links.ch.NewID(rdmacm.PortSpaceTCP)
	if err != nil {
		return err
	}
	s.links.ids = append(s.links.ids, id)
	if err := errors.Join(id.UseDevice(s.dev), tune(id), id.SetOption(rdmacm.OptionRemoteUDPPort, int(udpPort))); err != nil {
		return err
	}
	if err := id.ResolveAddr(netip.AddrPort{}, to); err != nil {
		return err
	}
	if _, err := s.links.expect(ctx, rdmacm.EventAddrResolved); err != nil {
		return err
	}
	if err := id.ResolveRoute(); err != nil {
		return err
	}
	if _, err := s.links.expect(ctx, rdmacm.EventRouteResolved); err != nil {
		return err
	}
	if err := s.create(id); err != nil {
		return err
	}
	if err := id.Connect(&rdmacm.ConnParam{PrivateData: private}); err != nil {
		return err
	}
	_, err = s.links.expect(ctx, rdmacm.EventEstablished)
	return err
}
