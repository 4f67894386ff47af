package pingpong

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/rdmacm"
	"softrdma/verbs"
)

// checkManaged refuses flags that cannot be combined with -R.
func (p *command) checkManaged() error {
	if p.service != "rc" {
		return cli.UsageErrorf("-R needs -t rc, found -t %s", p.service)
	}
	for flag, who := range map[string]string{"mtu": "path MTU", "gid-idx": "GID"} {
		if p.cmd.Flags().Changed(flag) {
			return cli.UsageErrorf("--%s: with -R the connection manager chooses the %s", flag, who)
		}
	}
	return nil
}

// parameters returns the settings that must be equal on both sides. The client sends
// them as private data of its request.
func (p *command) parameters() string {
	return fmt.Sprintf("pingpong -t %s -s %d -n %d", p.service, p.size, p.iters)
}

// mismatch describes how a client's parameters differ from this side's, or returns "".
func (p *command) mismatch(client string) string {
	switch here := p.parameters(); {
	case client == here:
		return ""
	case strings.HasPrefix(client, "pingpong "):
		return fmt.Sprintf("expected the same settings at both sides, found %q at the server and %q at the client", here, client)
	}
	return "expected softrdma pingpong -R, found another program"
}

// runManaged runs the pingpong through the connection manager.
func (p *command) runManaged(ctx context.Context) (err error) {
	peer := ""
	if p.host != "" {
		peer = net.JoinHostPort(p.host, strconv.Itoa(int(p.port)))
	}
	dev, err := cli.OpenLocal(ctx, p.cmd, p.device, peer, p.protocol)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	if p.host != "" {
		return p.dial(ctx, dev.Device)
	}
	if err := cli.RequireDevice(p.cmd, dev, "-d"); err != nil {
		return err
	}
	return p.accept(ctx, dev)
}

// dial connects as the client and runs the pingpong.
func (p *command) dial(ctx context.Context, dev *verbs.Device) (err error) {
	at := net.JoinHostPort(p.host, strconv.Itoa(int(p.port)))
	within, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	d := rdmacm.Dialer{Device: dev, Protocol: p.protocol.Verbs(), TOS: uint8(p.sl) << 5}
	e, err := d.Resolve(within, at)
	if err != nil {
		return p.connectError(ctx, err, at)
	}
	defer func() { err = errors.Join(err, cli.IgnoreClosed(e.Close())) }()
	if dev == nil {
		end, err := cli.CaptureDevice(p.cmd, e.Device())
		if err != nil {
			return err
		}
		defer end()
	}
	r, err := newSession(p, e.Device(), e.CreateQP)
	if err != nil {
		return err
	}
	conn, err := e.Connect(within, rdmacm.ConnParam{PrivateData: []byte(p.parameters())})
	if err != nil {
		return p.connectError(ctx, err, at)
	}
	return p.runOver(ctx, r, conn)
}

func (p *command) connectError(ctx context.Context, err error, at string) error {
	return cli.ConnectError(ctx, err, at, "softrdma pingpong -R", p.protocol, p.timeout)
}

// accept accepts one client and runs the pingpong.
func (p *command) accept(ctx context.Context, dev cli.Device) (err error) {
	l, err := rdmacm.Listen(net.JoinHostPort("", strconv.Itoa(int(p.port))), rdmacm.ListenConfig{Device: dev.Device, Protocol: p.protocol.Verbs(), TOS: uint8(p.sl) << 5})
	if err != nil {
		return cli.ListenError(err, dev, p.protocol, "-d ADDRESS")
	}
	defer func() { err = errors.Join(err, cli.IgnoreClosed(l.Close())) }()
	fmt.Fprintln(p.out, cli.WaitingAt(l.Addr()))
	req, err := l.Request(ctx)
	if err != nil {
		return errors.Join(ctx.Err(), err)
	}
	if why := p.mismatch(cli.PrivateDataText(req.PrivateData())); why != "" {
		return errors.Join(fmt.Errorf("client %v: %s", req.RemoteAddr(), why), req.Reject([]byte(why)))
	}
	r, err := newSession(p, req.Device(), req.CreateQP)
	if err != nil {
		return errors.Join(err, req.Reject(nil))
	}
	within, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	conn, err := req.Accept(within, rdmacm.ConnParam{})
	if err != nil {
		return p.connectError(ctx, err, req.RemoteAddr().String())
	}
	return p.runOver(ctx, r, conn)
}

// runOver runs a session over a connection and closes it. The client closes first,
// because the server's last message must be acknowledged.
func (p *command) runOver(ctx context.Context, r *session, conn *rdmacm.Conn) (err error) {
	defer func() { err = errors.Join(err, cli.IgnoreClosed(conn.Close())) }()
	p.printEndpoints(r, conn)
	p.printPath(r)
	start := time.Now()
	if err := r.run(ctx); err != nil {
		cause := cli.DisconnectError(conn, err)
		switch {
		case cause == nil:
			return err
		case !errors.Is(cause, rdmacm.ErrDisconnected) || !r.repliedToLast():
			return cli.PeerErrorf("%w: see its error message", cause)
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

// printEndpoints prints both queue pairs. Only the address of an iWARP peer is known.
func (p *command) printEndpoints(r *session, conn *rdmacm.Conn) {
	if p.protocol.IWARP() {
		fmt.Fprintf(p.out, "  local address:  %v, QPN 0x%06x\n  remote address: %v\n", conn.LocalAddr(), r.qps[0].Number(), conn.RemoteAddr())
		return
	}
	local, remote := r.endpoints(conn)
	p.print("local", []destination{local})
	p.print("remote", []destination{remote})
}

// repliedToLast reports whether a server has sent its last message. A client that has
// received it may disconnect before its acknowledge arrives here.
func (s *session) repliedToLast() bool {
	last := s.sent == s.cmd.iters || s.sent == s.cmd.iters-1 && s.waiting[0]&waitSend != 0
	return s.cmd.host == "" && s.received == s.cmd.iters && last
}

// endpoints returns the two queue pairs of a connection.
func (s *session) endpoints(conn *rdmacm.Conn) (local, remote destination) {
	a := s.qps[0].Query()
	gid := func(at netip.AddrPort) verbs.GID { return at.Addr().As16() }
	return destination{qpn: s.qps[0].Number(), psn: a.SQPSN, gid: gid(conn.LocalAddr())},
		destination{qpn: a.DestQPN, psn: a.RQPSN, gid: gid(conn.RemoteAddr())}
}
