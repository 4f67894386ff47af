package main

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"softrdma/bench"
)

// demoServer is the second process's end.
type demoServer struct {
	side     *side
	c        *control
	dev      opened
	size     int
	scratch  int
	listener net.Listener // while the client is to connect
}

// newDemoServer waits for the first process to say how large the file is, and
// connects to it.
func newDemoServer(ctx context.Context, dev opened, c *control) (*demoServer, error) {
	m, err := c.expect(ctx, doConnect)
	if err != nil {
		return nil, err
	}
	s, err := newSide(dev.Device, demoSideConfig(dev, m.Size))
	if err != nil {
		return nil, err
	}
	if err := s.welcome(ctx, c, m); err != nil {
		s.close()
		return nil, err
	}
	return &demoServer{side: s, c: c, dev: dev, size: m.Size, scratch: demoScratchAt(m.Size)}, nil
}

// welcome connects to the first process's queue pair, which m tells of.
func (s *side) welcome(ctx context.Context, c *control, m *controlMessage) (err error) {
	hello := &controlMessage{Do: doHello, Device: s.dev.Addr().String(), Endpoints: s.local, Memory: s.memory()}
	if s.cfg.Managed {
		if hello.Service, err = s.offer(); err != nil {
			return err
		}
		if err = c.send(hello); err != nil {
			return err
		}
		if err = s.answer(ctx, hello.Service); err != nil {
			return err
		}
		return s.connect(m, 0)
	}
	if err = s.connect(m, 0); err != nil {
		return err
	}
	return c.send(hello)
}

func (s *demoServer) data() []byte { return s.side.buf[:s.size] }

// run does what the first process says, until it says goodbye.
func (s *demoServer) run(ctx context.Context) error {
	for {
		m, err := s.c.next(ctx)
		if err != nil {
			return err
		}
		switch m.Do {
		case doBegin:
			err = s.transfer(ctx, m)
		case doLatency:
			err = s.latency(ctx, m)
		case doBye:
			return nil
		default:
			err = peerErrorf("control channel: unexpected %q", m.Do)
		}
		if err != nil {
			return err
		}
	}
}

// transfer is this end of an operation; at its end it tells what arrived.
func (s *demoServer) transfer(ctx context.Context, m *controlMessage) error {
	o := operationNamed(m.Operation)
	if o == nil {
		return peerErrorf("control channel: unknown operation %q", m.Operation)
	}
	ready := &controlMessage{Do: doReady, Count: m.Count}
	counter := s.side.word(s.scratch + scratchSum)
	atomic.StoreUint64(counter, 0)
	var err error
	switch o.name {
	case opSend:
		clear(s.data())
		err = s.postReceives()
	case opWrite:
		clear(s.data())
	case opTCP:
		clear(s.data())
		ready.Address, err = s.listen(ctx)
	}
	if err != nil {
		return err
	}
	cpu := bench.CPUTime()
	if err := s.c.send(ready); err != nil {
		return err
	}
	if o.server != nil {
		if err := o.server(s, ctx, m); err != nil {
			return err
		}
	}
	if _, err := s.c.expect(ctx, doEnd); err != nil {
		return err
	}
	done := &controlMessage{Do: doDone, CPU: (bench.CPUTime() - cpu).Seconds(), Value: atomic.LoadUint64(counter)}
	if o.count == 0 {
		done.SHA256 = sumOf(s.data())
	}
	return s.c.send(done)
}

// latency is this end of a latency test.
func (s *demoServer) latency(ctx context.Context, m *controlMessage) error {
	r := demoRound(m.Operation, m.Count, s.scratch)
	err := s.side.prepare(&r)
	ready := &controlMessage{Do: doReady}
	if err == nil && r.op == opTCP {
		ready.Address, err = s.listen(ctx)
	}
	if err == nil {
		err = s.c.send(ready)
	}
	if err != nil {
		return err
	}
	if r.op == opTCP {
		err = s.tcpPong(ctx, m.Count)
	} else {
		err = s.side.pong(ctx, &r, s.c)
	}
	if err != nil {
		return err
	}
	if _, err := s.c.expect(ctx, doEnd); err != nil {
		return err
	}
	return s.c.send(&controlMessage{Do: doDone})
}

func operationNamed(name string) *demoOperation {
	for i := range demoOperations {
		if o := &demoOperations[i]; o.name == name {
			return o
		}
	}
	return nil
}

// acceptLimit is how long the first process may take to connect.
const acceptLimit = 10 * time.Second
