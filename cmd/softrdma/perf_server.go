package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"softrdma/bench"
)

// keepAlive makes the end of a peer's host known within ten seconds.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 4 * time.Second, Interval: 2 * time.Second, Count: 3}

// A perfServer measures what its clients tell it to.
type perfServer struct {
	cmd   *cobra.Command
	notes io.Writer
	dev   opened // without a Device it is opened for each client
	keep  bool
}

// listen serves one client, or with keep one after another until ctx ends.
func (p *perfServer) listen(ctx context.Context, port uint16) error {
	lc := net.ListenConfig{KeepAliveConfig: keepAlive}
	l, err := lc.Listen(ctx, "tcp", fmt.Sprintf(":%d", port))
	if err != nil {
		return err
	}
	defer l.Close()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var printing sync.Mutex
	note := func(line string) {
		printing.Lock()
		defer printing.Unlock()
		fmt.Fprintln(p.notes, line)
	}
	note(fmt.Sprint("waiting for a client on TCP port ", l.Addr().(*net.TCPAddr).Port))
	failures := &throttle{print: note}
	defer failures.end()
	g := &greeter{clients: make(chan *perfPeer, maxQueued), failures: failures}
	defer g.end()
	closed := make(chan error, 1)
	go func() { closed <- g.greet(ctx, l) }()
	for {
		select {
		case err := <-closed:
			return err
		case c := <-g.clients:
			gone := c.ctx.Err() != nil // while another one measured
			err := p.serve(c, note)
			c.close()
			if ctx.Err() != nil || !p.keep && !gone {
				return err
			}
			if err != nil {
				failures.line("%v: %s", c, oneLine(err))
			}
		}
	}
}

// serve runs the tests of one client.
func (p *perfServer) serve(c *perfPeer, note func(string)) error {
	defer context.AfterFunc(c.ctx, func() { c.conn.SetDeadline(time.Now()) })()
	err := p.run(c.ctx, c, note)
	if err != nil {
		c.fail(err)
	}
	return err
}

func (p *perfServer) run(ctx context.Context, c *perfPeer, note func(string)) error {
	m := c.hello
	if m.Version != perfVersion || m.Settings == nil {
		return peerErrorf("client: expected softrdma perf of protocol version %d, found version %d", perfVersion, m.Version)
	}
	set := m.Settings
	if err := set.check(); err != nil {
		return peerErrorf("client's settings: %w", err)
	}
	dev := p.dev
	if dev.Device == nil {
		var err error
		if dev, err = openFirst(p.cmd, deviceNames(addrOf(c.conn.LocalAddr()), set.Protocol)); err != nil {
			return err
		}
		defer dev.close()
	}
	if here := dev.Protocol(); here != set.Protocol.protocol() {
		return peerErrorf("the client's device speaks %v and this one, %s, %v: expected the same --protocol", set.Protocol.protocol(), deviceName(dev.Device), here)
	}
	s, err := newSide(dev.Device, set.side())
	if err != nil {
		return err
	}
	defer s.close()
	note(fmt.Sprintf("%v measures %s %s on device %s", c, set.Operation, set.Metric, deviceName(dev.Device)))
	hello := &controlMessage{Do: doHello, Device: dev.Addr().String(), Endpoints: s.local, Memory: s.memory()}
	if set.Managed {
		if hello.Service, err = s.offer(); err != nil {
			return err
		}
	}
	hello.Alive = m.Alive
	if err := c.send(hello); err != nil {
		return err
	}
	if m.Alive {
		c.keepAlive(ctx)
	}
	if set.Managed {
		if err := s.answer(ctx, hello.Service); err != nil {
			return err
		}
	}
	setup, stop := context.WithTimeoutCause(ctx, setupLimit, peerErrorf("the client did not connect within %v", setupLimit))
	defer stop()
	if m, err = c.expect(setup, doConnect); err != nil {
		return err
	}
	if err := s.connect(m, set.MTU); err != nil {
		return err
	}
	m, err = c.ask(setup, &controlMessage{Do: doReady}, doBegin)
	for ; err == nil; m, err = c.next(ctx) {
		switch {
		case m.Do == doBye:
			return nil
		case m.Do != doBegin:
			return peerErrorf("control channel: expected %q, found %q", doBegin, m.Do)
		case !slices.Contains(set.Sizes, m.Size) || m.Count < 0:
			return peerErrorf("control channel: %d messages of %d bytes were not announced", m.Count, m.Size)
		case set.Metric == metricLatency:
			err = serveLatency(ctx, c.control, s, set, m)
		default:
			err = serveBandwidth(ctx, c.control, s, set, m)
		}
		if err != nil {
			return err
		}
	}
	return err
}

// serveBandwidth is the server's end of a bandwidth test of one size.
func serveBandwidth(ctx context.Context, c *control, s *side, set *perfSettings, m *controlMessage) error {
	f, err := newFlow(s, set, m.Size, m.Count, m.Seed, set.Bidirectional)
	if err != nil {
		return err
	}
	cpu := bench.CPUTime()
	if err := c.send(&controlMessage{Do: doReady}); err != nil {
		return err
	}
	var r flowResult
	if f.sending || f.expects {
		if r, err = f.run(ctx); err != nil {
			return err
		}
	}
	end, err := c.expect(ctx, doEnd)
	if err != nil {
		return err
	}
	r.CPU, r.Counters = (bench.CPUTime() - cpu).Seconds(), maps.Collect(s.dev.Counters())
	if set.Operation != opRead || set.Bidirectional {
		if err := f.verify(end.Count); err != nil {
			return err
		}
	}
	return c.send(&controlMessage{Do: doDone, Result: &r})
}

// serveLatency is the server's end of a round of a latency test.
func serveLatency(ctx context.Context, c *control, s *side, set *perfSettings, m *controlMessage) error {
	if m.Count < 1 {
		return peerErrorf("control channel: expected a round of messages, found %d", m.Count)
	}
	r := round{op: set.Operation, size: m.Size, count: m.Count, target: set.target()}
	if err := s.prepare(&r); err != nil {
		return err
	}
	if err := c.send(&controlMessage{Do: doReady}); err != nil {
		return err
	}
	if err := s.pong(ctx, &r, c); err != nil {
		return err
	}
	if _, err := c.expect(ctx, doEnd); err != nil {
		return err
	}
	return c.send(&controlMessage{Do: doDone})
}

// addrOf is the IP address of an end of a TCP connection.
func addrOf(a net.Addr) netip.Addr {
	if t, ok := a.(*net.TCPAddr); ok {
		return t.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// dialControl connects to a server.
func dialControl(ctx context.Context, host string, port uint16) (net.Conn, error) {
	d := net.Dialer{Timeout: helloLimit, KeepAliveConfig: keepAlive}
	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(host, fmt.Sprint(port)))
	var no *net.DNSError
	switch {
	case err == nil:
		return conn, nil
	case errors.As(err, &no):
		return nil, peerErrorf("server %s: %w", host, err)
	}
	return nil, peerErrorf("server %s: %w (start it there first: softrdma perf, the same test without HOST)", host, err)
}
