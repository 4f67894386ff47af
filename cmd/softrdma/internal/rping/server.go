package rping

import (
	"context"
	"errors"
	"net/netip"
	"sync"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/rdmacm"
	"softrdma/verbs"
)

// A listener waits for clients. With -q their ends move the queue pairs themselves,
// otherwise the connection manager does.
type listener interface {
	Addr() netip.AddrPort
	next(ctx context.Context) (connector, error)
	Close() error
}

// A cmListener is a listener of the connection manager.
type cmListener struct {
	*rdmacm.Listener
	p *command
}

func (l cmListener) next(ctx context.Context) (connector, error) {
	r, err := l.Request(ctx)
	if err != nil {
		return nil, err
	}
	return cmRequest{r, l.p}, nil
}

// listen listens on a device, or on every address.
func (p *command) listen(dev *verbs.Device) (listener, error) {
	if p.ownQP {
		return listenOwnQP(p, dev)
	}
	l, err := rdmacm.Listen(p.listenAddr(dev).String(), rdmacm.ListenConfig{Device: dev, Protocol: p.protocol.Verbs()})
	if err != nil {
		return nil, err
	}
	return cmListener{l, p}, nil
}

// runServer serves one client, or with -P any number.
func (p *command) runServer(ctx context.Context) (err error) {
	dev, err := cli.OpenLocal(ctx, p.cmd, p.addr, "", p.protocol)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	if err := cli.RequireDevice(p.cmd, dev, "-a ADDR"); err != nil {
		return err
	}
	l, err := p.listen(dev.Device)
	if err != nil {
		return cli.ListenError(err, dev, p.protocol, "-a ADDR")
	}
	p.out.Println(cli.WaitingAt(l.Addr()))
	if p.persistent {
		err = p.serveAll(ctx, l)
	} else {
		err = p.serveOne(ctx, l)
	}
	return errors.Join(err, cli.IgnoreClosed(l.Close()))
}

// serveOne serves the first client and rejects others at once.
func (p *command) serveOne(ctx context.Context, l listener) error {
	end, err := l.next(ctx)
	if err != nil {
		return errors.Join(ctx.Err(), err)
	}
	return errors.Join(l.Close(), p.answer(ctx, end))
}

// serveAll serves clients until ctx ends. A client's error is printed and does not end
// the server.
func (p *command) serveAll(ctx context.Context, l listener) error {
	p.notes = &cli.Throttle{Print: p.out.Println}
	var clients sync.WaitGroup
	defer p.notes.Flush()
	defer clients.Wait()
	for {
		end, err := l.next(ctx)
		if err != nil {
			return errors.Join(ctx.Err(), err)
		}
		clients.Go(func() {
			if err := p.answer(ctx, end); err != nil && ctx.Err() == nil {
				p.note("%s", cli.OneLine(err))
			}
		})
	}
}

// answer answers the pings of a client.
func (p *command) answer(ctx context.Context, end connector) (err error) {
	s, err := newSide(p, end)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	accept, cancel := context.WithTimeoutCause(ctx, p.timeout, cli.PeerErrorf("client %v: no confirmation of the connection for %v", end.RemoteAddr(), p.timeout))
	defer cancel()
	if err := s.connect(accept); err != nil {
		if accept.Err() != nil {
			err = context.Cause(accept)
		}
		return err
	}
	peer := s.conn.RemoteAddr()
	p.note("client %v is connected, path %s", peer, s.qp.Path())
	n, err := s.answer(ctx)
	if err != nil {
		return err
	}
	return p.result(record{Client: peer.String(), Pings: n}, "client %v: %s%s", peer, cli.Plural(n, "ping"), p.validated())
}
