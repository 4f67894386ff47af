package demo

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/cmd/softrdma/internal/measure"
	"softrdma/internal/host"
)

// A server is the end of the second process.
type server struct {
	side     *measure.Side
	c        *measure.Control
	dev      cli.Device
	size     int
	scratch  int
	listener net.Listener // for the client's next TCP connection
}

// newServer connects to the first process, which asks for it with m.
func newServer(ctx context.Context, dev cli.Device, c *measure.Control, m *measure.Message) (*server, error) {
	s, err := measure.NewSide(dev.Device, sideConfig(dev, m.Size))
	if err != nil {
		return nil, err
	}
	if err := connectServer(ctx, s, c, m); err != nil {
		s.Close()
		return nil, err
	}
	return &server{side: s, c: c, dev: dev, size: m.Size, scratch: scratchOffset(m.Size)}, nil
}

// connectServer connects to the first process's queue pair, which m describes.
func connectServer(ctx context.Context, s *measure.Side, c *measure.Control, m *measure.Message) (err error) {
	hello, err := s.Hello()
	if err != nil {
		return err
	}
	if s.Cfg.Managed {
		if err = c.Send(hello); err != nil {
			return err
		}
		if err = s.Accept(ctx, hello.Service); err != nil {
			return err
		}
		return s.Connect(m, 0)
	}
	if err = s.Connect(m, 0); err != nil {
		return err
	}
	return c.Send(hello)
}

func (s *server) data() []byte { return s.side.Buf[:s.size] }

// run executes what the first process asks for, until it begins another session with the
// message that run returns, or says goodbye.
func (s *server) run(ctx context.Context) (*measure.Message, error) {
	for {
		m, err := s.c.Next(ctx)
		if err != nil {
			return nil, err
		}
		switch m.Do {
		case measure.DoConnect:
			return m, nil
		case measure.DoBegin:
			err = s.transfer(ctx, m)
		case measure.DoLatency:
			err = s.latency(ctx, m)
		case measure.DoBye:
			return nil, nil
		default:
			err = cli.PeerErrorf("control channel: unexpected %q", m.Do)
		}
		if err != nil {
			return nil, err
		}
	}
}

// transfer is the server's end of an operation. At its end it reports what has arrived.
func (s *server) transfer(ctx context.Context, m *measure.Message) error {
	o := findOperation(m.Operation)
	if o == nil {
		return cli.PeerErrorf("control channel: unknown operation %q", m.Operation)
	}
	ready := &measure.Message{Do: measure.DoReady, Count: m.Count}
	counter := s.side.Word(s.scratch + scratchSum)
	atomic.StoreUint64(counter, 0)
	var err error
	switch o.name {
	case measure.OpSend:
		clear(s.data())
		err = s.postReceives()
	case measure.OpWrite:
		clear(s.data())
	case measure.OpTCP:
		clear(s.data())
		ready.Address, err = s.listen(ctx)
	}
	if err != nil {
		return err
	}
	cpu := host.CPUTime()
	if err := s.c.Send(ready); err != nil {
		return err
	}
	if o.server != nil {
		if err := o.server(s, ctx, m); err != nil {
			return err
		}
	}
	if _, err := s.c.Expect(ctx, measure.DoEnd); err != nil {
		return err
	}
	done := &measure.Message{Do: measure.DoDone, CPU: (host.CPUTime() - cpu).Seconds(), Value: atomic.LoadUint64(counter), Path: s.side.QPs[0].Path()}
	if o.count == 0 {
		done.SHA256 = sha256Hex(s.data())
	}
	return s.c.Send(done)
}

// latency is the server's end of a latency test.
func (s *server) latency(ctx context.Context, m *measure.Message) error {
	r := newRound(m.Operation, m.Count, s.scratch)
	err := s.side.PrepareRound(&r)
	ready := &measure.Message{Do: measure.DoReady}
	if err == nil && r.Op == measure.OpTCP {
		ready.Address, err = s.listen(ctx)
	}
	if err == nil {
		err = s.c.Send(ready)
	}
	if err != nil {
		return err
	}
	if r.Op == measure.OpTCP {
		err = s.tcpPong(ctx, m.Count)
	} else {
		err = s.side.Pong(ctx, &r, s.c)
	}
	if err != nil {
		return err
	}
	if _, err := s.c.Expect(ctx, measure.DoEnd); err != nil {
		return err
	}
	return s.c.Send(&measure.Message{Do: measure.DoDone})
}

func findOperation(name string) *operation {
	for i := range operations {
		if o := &operations[i]; o.name == name {
			return o
		}
	}
	return nil
}

// acceptLimit limits the time until the first process connects.
const acceptLimit = 10 * time.Second
