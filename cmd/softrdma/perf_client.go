package main

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/spf13/cobra"
)

const (
	warmUp     = 100                    // messages before a latency test
	roundTime  = 200 * time.Millisecond // of a round where the time is given
	firstRound = 64                     // messages of the first such round
	giB        = 1 << 30
)

// A perfClient runs the tests of one set of settings against a server.
type perfClient struct {
	set    *perfSettings
	sweep  bool
	c      *control
	s      *side
	report *perfReport
}

// runClient connects to the server and runs all tests.
func runClient(ctx context.Context, cmd *cobra.Command, opt *perfOptions, host string) error {
	conn, err := dialControl(ctx, host, opt.port)
	if err != nil {
		return err
	}
	defer conn.Close()
	c, ctx, cancel := newControl(ctx, conn, conn)
	defer cancel()
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Now().Add(time.Second)) })()
	early, stop := context.WithTimeoutCause(ctx, helloLimit, peerErrorf("server %s did not answer for %v", host, helloLimit))
	defer stop()
	hello, err := c.ask(early, &controlMessage{Do: doHello, Version: perfVersion, Settings: &opt.perfSettings, Alive: true}, doHello)
	if err != nil {
		return err
	}
	if hello.Alive {
		c.keepAlive(ctx)
	}
	names := []string{opt.device}
	if opt.device == "" {
		names = deviceNames(addrOf(conn.LocalAddr()), opt.Protocol)
	}
	dev, err := openFirst(cmd, names)
	if err != nil {
		c.fail(err)
		return err
	}
	defer dev.close()
	s, err := newSide(dev.Device, opt.side())
	if err != nil {
		c.fail(err)
		return err
	}
	defer s.close()
	p := &perfClient{set: &opt.perfSettings, sweep: opt.all, c: c, s: s}
	if p.set.Managed {
		if err := s.call(ctx, hello, addrOf(conn.RemoteAddr())); err != nil {
			c.fail(err)
			return err
		}
	}
	if err := p.connect(ctx, hello); err != nil {
		c.fail(err)
		return err
	}
	p.report = newPerfReport(cmd, opt, deviceName(dev.Device), opt.Protocol.name(hello.Device), s.qps[0].Query().PathMTU)
	if err := p.run(ctx); err != nil {
		c.fail(err)
		return err
	}
	c.send(&controlMessage{Do: doBye})
	return p.report.finish()
}

func (p *perfClient) connect(ctx context.Context, hello *controlMessage) error {
	if err := p.s.connect(hello, p.set.MTU); err != nil {
		return err
	}
	_, err := p.c.ask(ctx, &controlMessage{Do: doConnect, Endpoints: p.s.local, Memory: p.s.memory()}, doReady)
	return err
}

func (p *perfClient) run(ctx context.Context) error {
	for _, size := range p.set.Sizes {
		test := p.bandwidth
		if p.set.Metric == metricLatency {
			test = p.latency
		}
		if err := test(ctx, size, p.set.iterations(size, p.sweep)); err != nil {
			return err
		}
	}
	return nil
}

// bandwidth measures one size.
func (p *perfClient) bandwidth(ctx context.Context, size int, limit int64) error {
	seed := rand.Uint64()
	f, err := newFlow(p.s, p.set, size, limit, seed, true)
	if err != nil {
		return err
	}
	if _, err := p.c.ask(ctx, &controlMessage{Do: doBegin, Size: size, Count: limit, Seed: seed}, doReady); err != nil {
		return err
	}
	r, err := f.run(ctx)
	if err != nil {
		return err
	}
	done, err := p.c.ask(ctx, &controlMessage{Do: doEnd, Count: r.Messages}, doDone)
	if err != nil {
		return err
	}
	if done.Result == nil {
		return peerErrorf("control channel: expected a result")
	}
	if p.set.Operation == opRead || p.set.Bidirectional {
		if err := f.verify(done.Result.Messages); err != nil {
			return err
		}
	}
	p.report.bandwidth(newBandwidthResult(size, r, *done.Result))
	return nil
}

// latency measures one size.
func (p *perfClient) latency(ctx context.Context, size int, count int64) error {
	h := newLatencies()
	if err := p.round(ctx, size, warmUp, nil); err != nil {
		return err
	}
	if count > 0 {
		if err := p.round(ctx, size, count, h); err != nil {
			return err
		}
	} else {
		start := time.Now()
		for n := int64(firstRound); time.Since(start) < p.set.duration(); {
			began := time.Now()
			if err := p.round(ctx, size, n, h); err != nil {
				return err
			}
			n = max(1, min(4*n, n*int64(roundTime)/max(1, int64(time.Since(began)))))
		}
	}
	p.report.latency(newLatencyResult(h, size, oneWay(p.set.Operation)))
	return nil
}

func (p *perfClient) round(ctx context.Context, size int, count int64, h latencies) error {
	r := round{op: p.set.Operation, size: size, count: count, target: p.set.target()}
	if err := p.s.prepare(&r); err != nil {
		return err
	}
	if _, err := p.c.ask(ctx, &controlMessage{Do: doBegin, Size: size, Count: count}, doReady); err != nil {
		return err
	}
	watched, stop := p.s.watch(ctx)
	defer stop()
	if err := p.s.ping(watched, &r, h); err != nil {
		return err
	}
	_, err := p.c.ask(ctx, &controlMessage{Do: doEnd}, doDone)
	return err
}
