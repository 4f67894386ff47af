package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"softrdma/rdmacm"
	"softrdma/verbs"
)

// checkManaged refuses flags that -R leaves no choice of.
func (p *pingpong) checkManaged() error {
	if p.kind != "rc" {
		return usageErrorf("-R is for -t rc, found %s", p.kind)
	}
	for flag, who := range map[string]string{"mtu": "path MTU", "gid-idx": "GID"} {
		if p.cmd.Flags().Changed(flag) {
			return usageErrorf("--%s: with -R the %s is the connection manager's", flag, who)
		}
	}
	if p.port == 0 {
		return usageErrorf("-p: expected 1 to 65535, found 0")
	}
	return nil
}

// agreement is the private data of the client's request: what both sides must
// have the same of.
func (p *pingpong) agreement() string {
	return fmt.Sprintf("pingpong -t %s -s %d -n %d", p.kind, p.size, p.iters)
}

// differs says what the two sides do not agree on; nothing if they do.
func (p *pingpong) differs(client string) string {
	switch here := p.agreement(); {
	case client == here:
		return ""
	case strings.HasPrefix(client, "pingpong "):
		return fmt.Sprintf("expected the same at both sides, found %q at the server and %q at the client", here, client)
	}
	return "expected a softrdma pingpong -R, found another program"
}

// runManaged is run through the connection manager.
func (p *pingpong) runManaged(ctx context.Context) (err error) {
	peer := ""
	if p.host != "" {
		peer = net.JoinHostPort(p.host, strconv.Itoa(int(p.port)))
	}
	dev, err := localDevice(ctx, p.cmd, p.device, peer, p.protocol)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.close()) }()
	if p.host != "" {
		return p.call(ctx, dev.Device)
	}
	if err := capturesOne(p.cmd, dev, "-d"); err != nil {
		return err
	}
	return p.answer(ctx, dev)
}

// call is the client.
func (p *pingpong) call(ctx context.Context, dev *verbs.Device) (err error) {
	at := net.JoinHostPort(p.host, strconv.Itoa(int(p.port)))
	within, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	d := rdmacm.Dialer{Device: dev, Protocol: p.protocol.protocol(), TOS: uint8(p.sl) << 5}
	e, err := d.Resolve(within, at)
	if err != nil {
		return p.connectError(ctx, err, at)
	}
	defer func() { err = errors.Join(err, unlessGone(e.Close())) }()
	if dev == nil {
		end, err := captureDevice(p.cmd, e.Device())
		if err != nil {
			return err
		}
		defer end()
	}
	r, err := newRally(p, e.Device(), e.CreateQP)
	if err != nil {
		return err
	}
	conn, err := e.Connect(within, rdmacm.ConnParam{PrivateData: []byte(p.agreement())})
	if err != nil {
		return p.connectError(ctx, err, at)
	}
	return p.playOver(ctx, r, conn)
}

func (p *pingpong) connectError(ctx context.Context, err error, at string) error {
	return connectError(ctx, err, at, "softrdma pingpong -R", p.protocol, p.timeout)
}

// answer is the server: it waits for one client.
func (p *pingpong) answer(ctx context.Context, dev opened) (err error) {
	l, err := rdmacm.Listen(net.JoinHostPort("", strconv.Itoa(int(p.port))), rdmacm.ListenConfig{Device: dev.Device, Protocol: p.protocol.protocol(), TOS: uint8(p.sl) << 5})
	if err != nil {
		return listenError(err, dev, p.protocol, "-d ADDRESS")
	}
	defer func() { err = errors.Join(err, unlessGone(l.Close())) }()
	fmt.Fprintln(p.out, waitingAt(l.Addr()))
	req, err := l.Request(ctx)
	if err != nil {
		return errors.Join(ctx.Err(), err)
	}
	if why := p.differs(privateText(req.PrivateData())); why != "" {
		return errors.Join(fmt.Errorf("client %v: %s", req.RemoteAddr(), why), req.Reject([]byte(why)))
	}
	r, err := newRally(p, req.Device(), req.CreateQP)
	if err != nil {
		return errors.Join(err, req.Reject(nil))
	}
	within, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	conn, err := req.Accept(within, rdmacm.ConnParam{})
	if err != nil {
		return p.connectError(ctx, err, req.RemoteAddr().String())
	}
	return p.playOver(ctx, r, conn)
}

// playOver plays over a connection and ends it. The client ends it first: a
// server that did would take the acknowledge of the last message away.
func (p *pingpong) playOver(ctx context.Context, r *rally, conn *rdmacm.Conn) (err error) {
	defer func() { err = errors.Join(err, unlessGone(conn.Close())) }()
	p.printEnds(r, conn)
	start := time.Now()
	if err := r.play(ctx); err != nil {
		if err = connEnded(conn, err); !errors.Is(err, rdmacm.ErrDisconnected) || !r.answered() {
			return err
		}
	}
	if err := p.report(time.Since(start)); err != nil {
		return err
	}
	if p.host == "" {
		select {
		case <-conn.Done():
		case <-ctx.Done():
		case <-time.After(p.timeout):
		}
	}
	return nil
}

// printEnds shows the two queue pairs. Of an iWARP peer the address is all that
// is known.
func (p *pingpong) printEnds(r *rally, conn *rdmacm.Conn) {
	if p.protocol.iwarp() {
		fmt.Fprintf(p.out, "  local address:  %v, QPN 0x%06x\n  remote address: %v\n", conn.LocalAddr(), r.qps[0].Number(), conn.RemoteAddr())
		return
	}
	local, remote := r.ends(conn)
	p.print("local", []destination{local})
	p.print("remote", []destination{remote})
}

// answered tells whether a server has sent its last message. A client that has
// it ends the connection, perhaps before the acknowledge is there.
func (r *rally) answered() bool {
	last := r.sent == r.p.iters || r.sent == r.p.iters-1 && r.state[0]&rallySend != 0
	return r.p.host == "" && r.received == r.p.iters && last
}

// ends are the two queue pairs of a connection.
func (r *rally) ends(conn *rdmacm.Conn) (local, remote destination) {
	a := r.qps[0].Query()
	gid := func(at netip.AddrPort) verbs.GID { return at.Addr().As16() }
	return destination{qpn: r.qps[0].Number(), psn: a.SQPSN, gid: gid(conn.LocalAddr())},
		destination{qpn: a.DestQPN, psn: a.RQPSN, gid: gid(conn.RemoteAddr())}
}

// connEnded tells, in place of a flushed request, that the peer has ended the
// connection.
func connEnded(conn *rdmacm.Conn, err error) error {
	var c *verbs.CompletionError
	if !errors.As(err, &c) || c.Status != verbs.WRFlushErr {
		return err
	}
	select {
	case <-conn.Done():
		return peerErrorf("%w: its own error says why", conn.Err())
	case <-time.After(time.Second):
		return err
	}
}
