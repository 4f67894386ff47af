package perf

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/cmd/softrdma/internal/measure"
	"softrdma/verbs"
)

const (
	warmUp     = 100                    // messages before a latency test
	roundTime  = 200 * time.Millisecond // duration of a round, if the test is limited by time
	firstRound = 64                     // messages of the first such round
)

// A client runs the tests of one set of settings against a server.
type client struct {
	set    *measure.Settings
	sweep  bool
	c      *measure.Control
	s      *measure.Side
	report *report
}

// runClient connects to a server and runs all tests.
func runClient(ctx context.Context, cmd *cobra.Command, opt *options, host string) error {
	conn, err := dialControl(ctx, host, opt.port)
	if err != nil {
		return err
	}
	defer conn.Close()
	c, ctx, cancel := measure.NewControl(ctx, conn, conn)
	defer cancel()
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Now().Add(time.Second)) })()
	early, stop := context.WithTimeoutCause(ctx, helloTimeout, cli.PeerErrorf("server %s did not answer for %v", host, helloTimeout))
	defer stop()
	hello, err := c.Ask(early, &measure.Message{Do: measure.DoHello, Version: measure.ProtocolVersion, Settings: &opt.Settings, Alive: true}, measure.DoHello)
	if err != nil {
		return err
	}
	if hello.Alive {
		c.KeepAlive(ctx)
	}
	names := []string{opt.device}
	if opt.device == "" {
		names = cli.Candidates(addrOf(conn.LocalAddr()), opt.Protocol)
	}
	dev, err := cli.OpenFirst(cmd, names, verbs.Config{})
	if err != nil {
		c.Fail(err)
		return err
	}
	defer dev.Close()
	s, err := measure.NewSide(dev.Device, opt.SideConfig())
	if err != nil {
		c.Fail(err)
		return err
	}
	defer s.Close()
	p := &client{set: &opt.Settings, sweep: opt.all, c: c, s: s}
	if p.set.Managed {
		if err := s.Dial(ctx, hello, addrOf(conn.RemoteAddr())); err != nil {
			c.Fail(err)
			return err
		}
	}
	if err := p.connect(ctx, hello); err != nil {
		c.Fail(err)
		return err
	}
	p.report = newReport(cmd, opt, cli.DeviceName(dev.Device), opt.Protocol.PeerName(hello.Device), s.QPs[0])
	if err := p.run(ctx); err != nil {
		c.Fail(err)
		return err
	}
	c.Send(&measure.Message{Do: measure.DoBye})
	return p.report.finish()
}

func (p *client) connect(ctx context.Context, hello *measure.Message) error {
	if err := p.s.Connect(hello, p.set.MTU); err != nil {
		return err
	}
	_, err := p.c.Ask(ctx, &measure.Message{Do: measure.DoConnect, Endpoints: p.s.Local, Memory: p.s.Memory()}, measure.DoReady)
	return err
}

func (p *client) run(ctx context.Context) error {
	for _, size := range p.set.Sizes {
		test := p.bandwidth
		if p.set.Metric == measure.MetricLatency {
			test = p.latency
		}
		if err := test(ctx, size, p.set.MessagesOf(size, p.sweep)); err != nil {
			return err
		}
	}
	return nil
}

// bandwidth measures one message size.
func (p *client) bandwidth(ctx context.Context, size int, limit int64) error {
	seed := rand.Uint64()
	f, err := measure.NewFlow(p.s, p.set, size, limit, seed, true)
	if err != nil {
		return err
	}
	if _, err := p.c.Ask(ctx, &measure.Message{Do: measure.DoBegin, Size: size, Count: limit, Seed: seed}, measure.DoReady); err != nil {
		return err
	}
	r, err := f.Run(ctx)
	if err != nil {
		return err
	}
	done, err := p.c.Ask(ctx, &measure.Message{Do: measure.DoEnd, Count: r.Messages}, measure.DoDone)
	if err != nil {
		return err
	}
	if done.Result == nil {
		return cli.PeerErrorf("control channel: expected a result")
	}
	if p.set.Operation == measure.OpRead || p.set.Bidirectional {
		if err := f.Verify(done.Result.Messages); err != nil {
			return err
		}
	}
	p.report.bandwidth(newBandwidthResult(size, r, *done.Result))
	return nil
}

// latency measures one message size.
func (p *client) latency(ctx context.Context, size int, count int64) error {
	h := measure.NewHistogram()
	if err := p.round(ctx, size, warmUp, nil); err != nil {
		return err
	}
	if count > 0 {
		if err := p.round(ctx, size, count, h); err != nil {
			return err
		}
	} else {
		start := time.Now()
		for n := int64(firstRound); time.Since(start) < p.set.Duration(); {
			began := time.Now()
			if err := p.round(ctx, size, n, h); err != nil {
				return err
			}
			n = max(1, min(4*n, n*int64(roundTime)/max(1, int64(time.Since(began)))))
		}
	}
	p.report.latency(measure.NewLatencyResult(h, size, measure.OneWay(p.set.Operation)))
	return nil
}

func (p *client) round(ctx context.Context, size int, count int64, h measure.Histogram) error {
	r := measure.Round{Op: p.set.Operation, Size: size, Count: count, Target: p.set.Target()}
	if err := p.s.PrepareRound(&r); err != nil {
		return err
	}
	if _, err := p.c.Ask(ctx, &measure.Message{Do: measure.DoBegin, Size: size, Count: count}, measure.DoReady); err != nil {
		return err
	}
	watched, stop := p.s.Watch(ctx)
	defer stop()
	if err := p.s.Ping(watched, &r, h); err != nil {
		return err
	}
	_, err := p.c.Ask(ctx, &measure.Message{Do: measure.DoEnd}, measure.DoDone)
	return err
}

// dialControl connects to the control port of a server.
func dialControl(ctx context.Context, host string, port uint16) (net.Conn, error) {
	d := net.Dialer{Timeout: helloTimeout, KeepAliveConfig: keepAlive}
	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(host, fmt.Sprint(port)))
	switch {
	case err == nil:
		return conn, nil
	case errors.As(err, new(*net.DNSError)):
		return nil, cli.PeerErrorf("server %s: %w", host, err)
	case errors.Is(err, syscall.ECONNREFUSED), runtime.GOOS == "windows":
		return nil, cli.PeerErrorf("server %s: %w (start it there first: softrdma perf, the same test without HOST)", host, err)
	}
	return nil, cli.PeerErrorf("server %s: %w: is the host up, is there a route to it, and does its firewall allow TCP port %d?", host, err, port)
}
