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

// checkManaged refuses flags that -R leaves no choice of.
func (p *command) checkManaged() error {
	if p.service != "rc" {
		return cli.UsageErrorf("-R is for -t rc, found %s", p.service)
	}
	for flag, who := range map[string]string{"mtu": "path MTU", "gid-idx": "GID"} {
		if p.cmd.Flags().Changed(flag) {
			return cli.UsageErrorf("--%s: with -R the %s is the connection manager's", flag, who)
		}
	}
	if p.port == 0 {
		return cli.UsageErrorf("-p: expected 1 to 65535, found 0")
	}
	return nil
}

// parameters is the private data of the client's request: what both sides must
// have the same of.
func (p *command) parameters() string {
	return fmt.Sprintf("pingpong -t %s -s %d -n %d", p.service, p.size, p.iters)
}

// mismatch says what the two sides do not agree on; nothing if they do.
func (p *command) mismatch(client string) string {
	switch here := p.parameters(); {
	case client == here:
		return ""
	case strings.HasPrefix(client, "pingpong "):
		return fmt.Sprintf("expected the same at both sides, found %q at the server and %q at the client", here, client)
	}
	return "expected a softrdma pingpong -R, found another program"
}

// runManaged is run through the connection manager.
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
	if err := cli.RequireCaptureDevice(p.cmd, dev, "-d"); err != nil {
		return err
	}
	return p.accept(ctx, dev)
}

// dial is the client.
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

// accept is the server: it waits for one client.
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

// runOver plays over a connection and ends it. The client ends it first: a
// server that did would take the acknowledge of the last message away.
func (p *command) runOver(ctx context.Context, r *session, conn *rdmacm.Conn) (err error) {
	defer func() { err = errors.Join(err, cli.IgnoreClosed(conn.Close())) }()
	p.printEndpoints(r, conn)
	start := time.Now()
	if err := r.run(ctx); err != nil {
		if err = explainFlush(conn, err); !errors.Is(err, rdmacm.ErrDisconnected) || !r.repliedToLast() {
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

// printEndpoints shows the two queue pairs. Of an iWARP peer the address is all that
// is known.
func (p *command) printEndpoints(r *session, conn *rdmacm.Conn) {
	if p.protocol.IWARP() {
		fmt.Fprintf(p.out, "  local address:  %v, QPN 0x%06x\n  remote address: %v\n", conn.LocalAddr(), r.qps[0].Number(), conn.RemoteAddr())
		return
	}
	local, remote := r.endpoints(conn)
	p.print("local", []destination{local})
	p.print("remote", []destination{remote})
}

// repliedToLast tells whether a server has sent its last message. A client that has
// it ends the connection, perhaps before the acknowledge is there.
func (r *session) repliedToLast() bool {
	last := r.sent == r.cmd.iters || r.sent == r.cmd.iters-1 && r.waiting[0]&waitSend != 0
	return r.cmd.host == "" && r.received == r.cmd.iters && last
}

// endpoints are the two queue pairs of a connection.
func (r *session) endpoints(conn *rdmacm.Conn) (local, remote destination) {
	a := r.qps[0].Query()
	gid := func(at netip.AddrPort) verbs.GID { return at.Addr().As16() }
	return destination{qpn: r.qps[0].Number(), psn: a.SQPSN, gid: gid(conn.LocalAddr())},
		destination{qpn: a.DestQPN, psn: a.RQPSN, gid: gid(conn.RemoteAddr())}
}

// explainFlush tells, in place of a flushed request, that the peer has ended the
// connection.
func explainFlush(conn *rdmacm.Conn, err error) error {
	var c *verbs.CompletionError
	if !errors.As(err, &c) || c.Status != verbs.WRFlushErr {
		return err
	}
	select {
	case <-conn.Done():
		return cli.PeerErrorf("%w: its own error says why", conn.Err())
	case <-time.After(time.Second):
		return err
	}
}
