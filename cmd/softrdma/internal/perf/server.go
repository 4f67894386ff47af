package perf

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/cmd/softrdma/internal/measure"
	"softrdma/internal/host"
	"softrdma/verbs"
)

// keepAlive detects within ten seconds that a peer's host is gone.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 4 * time.Second, Interval: 2 * time.Second, Count: 3}

// A server runs the measurements that its clients ask for.
type server struct {
	cmd   *cobra.Command
	notes io.Writer
	dev   cli.Device // if its Device is nil, one is opened for each client
	keep  bool
}

// listen serves one client, or with keep one after another until ctx ends.
func (p *server) listen(ctx context.Context, port uint16) error {
	lc := net.ListenConfig{KeepAliveConfig: keepAlive}
	l, err := lc.Listen(ctx, "tcp", fmt.Sprintf(":%d", port))
	if err != nil {
		return err
	}
	defer l.Close()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	notes := cli.NewPrinter(p.notes)
	notes.Printf("waiting for a client on TCP port %d", l.Addr().(*net.TCPAddr).Port)
	failures := &cli.Throttle{Print: notes.Println}
	defer failures.Flush()
	a := &acceptor{clients: make(chan *peer, maxQueued), failures: failures}
	defer a.closeQueued()
	closed := make(chan error, 1)
	go func() { closed <- a.run(ctx, l) }()
	for {
		select {
		case err := <-closed:
			return err
		case c := <-a.clients:
			gone := c.ctx.Err() != nil // it left while another one was measured
			err := p.serve(c, notes)
			c.close()
			if ctx.Err() != nil || !p.keep && !gone {
				return err
			}
			if err != nil {
				failures.Printf("%v: %s", c, cli.OneLine(err))
			}
		}
	}
}

// serve runs the tests of one client.
func (p *server) serve(c *peer, notes *cli.Printer) error {
	defer context.AfterFunc(c.ctx, func() { c.conn.SetDeadline(time.Now()) })()
	err := p.run(c.ctx, c, notes)
	if err != nil {
		c.Fail(err)
	}
	return err
}

func (p *server) run(ctx context.Context, c *peer, notes *cli.Printer) error {
	set := c.hello.Settings
	if c.hello.Version != measure.ProtocolVersion || set == nil {
		return cli.PeerErrorf("client: expected softrdma perf of protocol version %d, found version %d", measure.ProtocolVersion, c.hello.Version)
	}
	if err := set.Check(); err != nil {
		return cli.PeerErrorf("client's settings: %w", err)
	}
	dev := p.dev
	if dev.Device == nil {
		var err error
		if dev, err = cli.OpenFirst(p.cmd, cli.Candidates(addrOf(c.conn.LocalAddr()), set.Protocol), verbs.Config{}); err != nil {
			return err
		}
		defer dev.Close()
	}
	if here := dev.Protocol(); here != set.Protocol.Verbs() {
		return cli.PeerErrorf("the client's device uses %v, but %s uses %v: expected the same --protocol", set.Protocol.Verbs(), cli.DeviceName(dev.Device), here)
	}
	s, err := measure.NewSide(dev.Device, set.SideConfig())
	if err != nil {
		return err
	}
	defer s.Close()
	m, err := p.setUp(ctx, c, s, notes)
	for ; err == nil; m, err = c.Next(ctx) {
		switch {
		case m.Do == measure.DoBye:
			return nil
		case m.Do != measure.DoBegin:
			return cli.PeerErrorf("control channel: expected %q, found %q", measure.DoBegin, m.Do)
		case !slices.Contains(set.Sizes, m.Size) || m.Count < 0:
			return cli.PeerErrorf("control channel: the client's settings do not include %d messages of %d bytes", m.Count, m.Size)
		case set.Metric == measure.MetricLatency:
			err = serveLatency(ctx, c.Control, s, set, m)
		default:
			err = serveBandwidth(ctx, c.Control, s, set, m)
		}
		if err != nil {
			return err
		}
	}
	return err
}

// setUp connects the queue pairs of this end to the client's and returns the client's
// first message after that.
func (p *server) setUp(ctx context.Context, c *peer, s *measure.Side, notes *cli.Printer) (begin *measure.Message, err error) {
	set, dev := c.hello.Settings, s.Dev
	notes.Printf("%v measures %s %s on device %s", c, set.Operation, set.Metric, cli.DeviceName(dev))
	hello, err := s.Hello()
	if err != nil {
		return nil, err
	}
	hello.Alive = c.hello.Alive
	if err := c.Send(hello); err != nil {
		return nil, err
	}
	if c.hello.Alive {
		c.KeepAlive(ctx)
	}
	if set.Managed {
		if err := s.Accept(ctx, hello.Service); err != nil {
			return nil, err
		}
	}
	setup, stop := context.WithTimeoutCause(ctx, setUpTimeout, cli.PeerErrorf("the client did not connect within %v", setUpTimeout))
	defer stop()
	m, err := c.Expect(setup, measure.DoConnect)
	if err != nil {
		return nil, err
	}
	if err := s.Connect(m, set.MTU); err != nil {
		return nil, err
	}
	return c.Ask(setup, &measure.Message{Do: measure.DoReady}, measure.DoBegin)
}

// serveBandwidth is the server's end of a bandwidth test of one size.
func serveBandwidth(ctx context.Context, c *measure.Control, s *measure.Side, set *measure.Settings, m *measure.Message) error {
	f, err := measure.NewFlow(s, set, m.Size, m.Count, m.Seed, set.Bidirectional)
	if err != nil {
		return err
	}
	cpu := host.CPUTime()
	if err := c.Send(&measure.Message{Do: measure.DoReady}); err != nil {
		return err
	}
	var r measure.FlowResult
	if f.Sends || f.Receives {
		if r, err = f.Run(ctx); err != nil {
			return err
		}
	}
	end, err := c.Expect(ctx, measure.DoEnd)
	if err != nil {
		return err
	}
	r.CPU, r.Counters = (host.CPUTime() - cpu).Seconds(), maps.Collect(s.Dev.Counters())
	if set.Operation != measure.OpRead || set.Bidirectional {
		if err := f.Verify(end.Count); err != nil {
			return err
		}
	}
	return c.Send(&measure.Message{Do: measure.DoDone, Result: &r})
}

// serveLatency is the server's end of a round of a latency test.
func serveLatency(ctx context.Context, c *measure.Control, s *measure.Side, set *measure.Settings, m *measure.Message) error {
	if m.Count < 1 {
		return cli.PeerErrorf("control channel: expected a round of messages, found %d", m.Count)
	}
	r := measure.Round{Op: set.Operation, Size: m.Size, Count: m.Count, Target: set.Target()}
	if err := s.PrepareRound(&r); err != nil {
		return err
	}
	if err := c.Send(&measure.Message{Do: measure.DoReady}); err != nil {
		return err
	}
	if err := s.Pong(ctx, &r, c); err != nil {
		return err
	}
	if _, err := c.Expect(ctx, measure.DoEnd); err != nil {
		return err
	}
	return c.Send(&measure.Message{Do: measure.DoDone})
}

// addrOf returns the IP address of one end of a TCP connection.
func addrOf(a net.Addr) netip.Addr {
	if t, ok := a.(*net.TCPAddr); ok {
		return t.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}
