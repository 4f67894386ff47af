package main

import (
	"context"
	"errors"
	"net/netip"
	"sync"

	"softrdma/rdmacm"
	"softrdma/verbs"
)

// An rpingListener waits for clients: the connection manager's, or with -q one
// whose ends move their queue pairs themselves.
type rpingListener interface {
	Addr() netip.AddrPort
	next(ctx context.Context) (rpingEnd, error)
	Close() error
}

// managedListener is a listener of the connection manager's.
type managedListener struct {
	*rdmacm.Listener
	p *rping
}

func (l managedListener) next(ctx context.Context) (rpingEnd, error) {
	r, err := l.Request(ctx)
	if err != nil {
		return nil, err
	}
	return request{r, l.p}, nil
}

// listen begins to wait on a device, or on every address.
func (p *rping) listen(dev *verbs.Device) (rpingListener, error) {
	if p.own {
		return listenOwn(p, dev)
	}
	l, err := rdmacm.Listen(p.everywhere(dev).String(), rdmacm.ListenConfig{Device: dev, Protocol: p.protocol.protocol()})
	if err != nil {
		return nil, err
	}
	return managedListener{l, p}, nil
}

// runServer answers one client, or with -P any number.
func (p *rping) runServer(ctx context.Context) (err error) {
	dev, err := localDevice(ctx, p.cmd, p.addr, "", p.protocol)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.close()) }()
	if err := capturesOne(p.cmd, dev, "-a ADDR"); err != nil {
		return err
	}
	l, err := p.listen(dev.Device)
	if err != nil {
		return listenError(err, dev, p.protocol, "-a ADDR")
	}
	p.print("%s", waitingAt(l.Addr()))
	if p.persistent {
		err = p.serveAll(ctx, l)
	} else {
		err = p.serveOne(ctx, l)
	}
	return errors.Join(err, unlessGone(l.Close()))
}

// serveOne answers the first client. Others learn at once that nobody listens
// any more.
func (p *rping) serveOne(ctx context.Context, l rpingListener) error {
	end, err := l.next(ctx)
	if err != nil {
		return errors.Join(ctx.Err(), err)
	}
	return errors.Join(l.Close(), p.answer(ctx, end))
}

// serveAll answers clients until ctx ends. A client that fails is told of and
// does not end the server.
func (p *rping) serveAll(ctx context.Context, l rpingListener) error {
	p.notes = &throttle{print: func(line string) { p.print("%s", line) }}
	var clients sync.WaitGroup
	defer p.notes.end()
	defer clients.Wait()
	for {
		end, err := l.next(ctx)
		if err != nil {
			return errors.Join(ctx.Err(), err)
		}
		clients.Go(func() {
			if err := p.answer(ctx, end); err != nil && ctx.Err() == nil {
				p.note("%s", oneLine(err))
			}
		})
	}
}

// answer answers the pings of a client.
func (p *rping) answer(ctx context.Context, end rpingEnd) (err error) {
	s, err := newRpingSide(p, end)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	accept, cancel := context.WithTimeoutCause(ctx, p.timeout, peerErrorf("client %v: no confirmation of the connection for %v", end.RemoteAddr(), p.timeout))
	defer cancel()
	if err := s.connect(accept); err != nil {
		if accept.Err() != nil {
			err = context.Cause(accept)
		}
		return err
	}
	peer := s.link.RemoteAddr()
	p.note("client %v is connected", peer)
	n, err := s.answer(ctx)
	if err != nil {
		return err
	}
	return p.result(rpingRecord{Client: peer.String(), Pings: n}, "client %v: %s%s", peer, pings(n), p.validated())
}
