package rpc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"softrdma/internal/carrier"
	"softrdma/internal/waiting"
	"softrdma/rdmacm"
	"softrdma/verbs"
)

// MaxRails is how many addresses of a server a client may be given.
const MaxRails = 4

// A path is one of the addresses of a session's server, and the device by which the client reaches it.
type path struct {
	address string
	to      string           // the address, or what it resolved to
	device  *verbs.Device    // that the program has named
	lease   *rdmacm.Endpoint // keeps the device open between connections
	rail    *carrier.Rail

	conns     []*carrier.Conn // guarded by the engine's lock, as are the fields below
	repairing bool
	joined    time.Time       // when the last connection was made
	pauses    waiting.Backoff // between connections that break soon
}

// lay finds the devices of a session's paths. One is enough.
func (s *link) lay(ctx context.Context, addresses string) error {
	list := strings.Split(addresses, ",")
	cfg := &s.client.cfg
	if len(list) > MaxRails {
		return fmt.Errorf("rpc: %d addresses, expected at most %d", len(list), MaxRails)
	}
	if len(cfg.Rails) > MaxRails-1 {
		return fmt.Errorf("rpc: Rails has %d devices, expected at most %d", len(cfg.Rails), MaxRails-1)
	}
	var first error
	for i, a := range list {
		p := &path{address: a}
		switch {
		case i == 0:
			p.device = cfg.Device
		case i-1 < len(cfg.Rails):
			p.device = cfg.Rails[i-1]
		}
		p.pauses.First, p.pauses.Last = firstPause, lastPause
		s.paths = append(s.paths, p)
		if _, err := s.open(ctx, p); err != nil && first == nil {
			first = err
		}
	}
	if s.e == nil {
		return first
	}
	return nil
}

// open returns the rail of a path, which it makes if there is none that works. One goroutine at a time
// works on a path.
func (s *link) open(ctx context.Context, p *path) (*carrier.Rail, error) {
	if p.rail != nil && !p.rail.Gone.Load() {
		return p.rail, nil
	}
	if p.lease != nil {
		_ = p.lease.Close() // its device has closed
		p.lease, p.rail = nil, nil
	}
	d := s.dialer(p)
	ep, err := d.Resolve(ctx, p.address)
	if err != nil {
		return nil, refusal(p.address, err)
	}
	if s.e == nil {
		if err = s.begun(ep.Device()); err != nil {
			_ = ep.Close()
			return nil, err
		}
	}
	on, err := s.e.On(ep.Device())
	if err != nil {
		_ = ep.Close()
		return nil, err
	}
	s.e.Lock()
	s.Wake() // the leader may sleep on the first rail alone
	s.e.Unlock()
	p.lease, p.rail, p.to = ep, on, ep.RemoteAddr().String()
	return on, nil
}

// begun makes what a session needs on its first device.
func (s *link) begun(dev *verbs.Device) error {
	e, err := carrier.NewEngine(dev, nil)
	if err != nil {
		return err
	}
	if s.domain, err = carrier.NewDomain(e.First()); err != nil {
		_ = e.Close() // it has no connection
		return err
	}
	s.e, s.Group = e, waiting.New(e)
	return nil
}

// unlay lets the devices go.
func (s *link) unlay() {
	for _, p := range s.paths {
		if p.lease != nil {
			_ = p.lease.Close()
		}
	}
}

func (s *link) dialer(p *path) rdmacm.Dialer {
	c := &s.client.cfg
	d := rdmacm.Dialer{Device: p.device, Protocol: c.Protocol, TLS: c.TLS, RemoteUDPPort: c.RemoteUDPPort, ResponseTimeout: 17} // 537 ms
	if p.rail != nil {
		d.Device = p.rail.Dev
	}
	return d
}

// dialAll makes the connections of a new session. With several paths it is enough that one works; the
// others are tried again later.
func (s *link) dialAll(ctx context.Context) error {
	for _, p := range s.paths {
		p.repairing = true
	}
	var first error
	for i, p := range s.paths {
		err := s.dialPath(ctx, p, len(s.paths)-i)
		switch {
		case err == nil:
		case s.slots != nil && errors.Is(err, ErrOutcomeUnknown):
			return fmt.Errorf("%w: %s does not know the session", ErrRails, p.address)
		case ctx.Err() != nil, len(s.paths) == 1, !errors.Is(err, ErrUnreachable) && !errors.Is(err, verbs.ErrClosed):
			return err
		case first == nil:
			first = err
		}
	}
	if s.slots == nil {
		return first
	}
	s.e.Lock()
	defer s.e.Unlock()
	for _, p := range s.paths {
		if p.repairing = false; len(p.conns) < s.client.cfg.Connections {
			s.reconnect(p)
		}
	}
	return nil
}

// dialPath makes the connections of a path. If ctx has a deadline, it leaves time for the paths behind it.
func (s *link) dialPath(ctx context.Context, p *path, left int) error {
	if end, ok := ctx.Deadline(); ok && left > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(end)/time.Duration(left))
		defer cancel()
	}
	for range s.client.cfg.Connections {
		if err := s.dial(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// reconnect connects a path again, in a goroutine. The caller holds the lock.
func (s *link) reconnect(p *path) {
	if !p.repairing {
		p.repairing = true
		s.e.Ending.Add(1)
		go s.repair(p, time.Since(p.joined) < soon)
	}
}

// soon is how long a connection lasts at least, unless its peer accepts connections and refuses what they
// carry. Such connections are made with pauses.
const soon = time.Second

// repair connects a path again until it has all of its connections. Early says that the last one broke soon.
func (s *link) repair(p *path, early bool) {
	defer s.e.Ending.Done()
	if early {
		_ = p.pauses.Wait(s.context) // s.err is set when it ends
	} else {
		p.pauses.Reset()
	}
	cut := time.Now()
	for pauses := (waiting.Backoff{First: firstPause, Last: lastPause}); ; {
		p.to = p.address // the server may have got another address
		err := s.dial(s.context, p)
		s.e.Lock()
		if len(s.conns) > 0 {
			cut = time.Now()
		}
		switch {
		case s.err != nil || err == nil && len(p.conns) >= s.client.cfg.Connections:
			p.repairing = false
			s.e.Unlock()
			return
		case len(s.conns) > 0 && p.device != nil && errors.Is(err, verbs.ErrClosed):
			s.e.Unlock()
			return // it stays repairing: that device is not opened again
		case err != nil && len(s.conns) == 0:
			s.despair(err, time.Since(cut))
		}
		s.e.Unlock()
		if err != nil {
			_ = pauses.Wait(s.context) // s.err is set when it ends
		}
	}
}

// despair ends the session if an attempt to connect says that it cannot continue, or no attempt has
// succeeded for long. It has no connection.
func (s *link) despair(err error, after time.Duration) {
	limit := s.client.cfg.ReconnectTimeout
	var to *moved
	switch {
	case errors.As(err, &to):
		s.moved = to.address
		s.fail(fmt.Errorf("%w: %w", ErrOutcomeUnknown, err))
	case after > limit:
		s.fail(fmt.Errorf("for %v: %w", limit, err))
	case errors.Is(err, verbs.ErrClosed) && s.e.Dead() == nil && len(s.paths) > 1: // others may work
	case errors.Is(err, ErrOutcomeUnknown), errors.Is(err, ErrVersion), errors.Is(err, ErrPeer), errors.Is(err, ErrProtocol), errors.Is(err, verbs.ErrClosed):
		s.fail(err)
	}
}
