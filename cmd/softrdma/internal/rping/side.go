package rping

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/rdmacm"
	"softrdma/verbs"
)

// A connector is one end before it is connected. Its device is known, and its queue
// pair can take receives.
type connector interface {
	Device() *verbs.Device
	RemoteAddr() netip.AddrPort
	CreateQP(*verbs.PD, verbs.QPConfig) (*verbs.QP, error)
	connect(context.Context) (connection, error) // or accept
	abandon() error
}

// A connection is an established connection.
type connection interface {
	RemoteAddr() netip.AddrPort
	Done() <-chan struct{}
	Err() error
	Disconnect() error
	Close() error
}

// A cmEndpoint is a client's end that the connection manager manages.
type cmEndpoint struct {
	*rdmacm.Endpoint
	p *command
}

func (e cmEndpoint) connect(ctx context.Context) (connection, error) {
	return e.Connect(ctx, e.p.param())
}
func (e cmEndpoint) abandon() error { return e.Close() }

// A cmRequest is a server's end that the connection manager manages.
type cmRequest struct {
	*rdmacm.Request
	p *command
}

func (r cmRequest) connect(ctx context.Context) (connection, error) {
	return r.Accept(ctx, rdmacm.ConnParam{})
}
func (r cmRequest) abandon() error { return r.Reject(nil) }

// resolve finds the client's device.
func (p *command) resolve(ctx context.Context, dev *verbs.Device) (connector, error) {
	if p.ownQP {
		return resolveOwnQP(ctx, p, dev)
	}
	d := rdmacm.Dialer{Device: dev, Protocol: p.protocol.Verbs()}
	e, err := d.Resolve(ctx, p.serverAddr())
	if err != nil {
		return nil, err
	}
	return cmEndpoint{e, p}, nil
}

const (
	sendDepth = 16 // depth of the send queue
	recvDepth = 2  // depth of the receive queue

	// interruptGrace is the time in which an interrupted client finishes its ping, so
	// that it disconnects between two pings.
	interruptGrace = time.Second
)

// A side is one end of a connection with its memory: the messages, the outgoing ping
// and the incoming one.
type side struct {
	p        *command
	end      connector
	conn     connection // nil before connect
	pd       *verbs.PD
	cq       *verbs.CQ
	qp       *verbs.QP
	messages []byte // recvDepth received messages and one to send
	out, in  []byte
	mrs      [3]*verbs.MR // of messages, out, in
	arrived  []message
	wcs      [sendDepth + recvDepth]verbs.WC
}

// newSide creates the objects of an end and posts receives. If it fails it also
// releases the end.
func newSide(p *command, end connector) (*side, error) {
	s := &side{p: p, end: end, messages: make([]byte, (recvDepth+1)*verbs.RemoteMemoryLen), in: make([]byte, p.size)}
	if p.client {
		s.out = make([]byte, p.size)
	}
	if err := s.allocate(); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *side) allocate() (err error) {
	dev := s.end.Device()
	if s.pd, err = dev.AllocPD(); err != nil {
		return err
	}
	into := verbs.LocalWrite
	if s.p.client {
		into |= verbs.RemoteWrite
	}
	for i, m := range [3]struct {
		b      []byte
		access verbs.Access
	}{{s.messages, verbs.LocalWrite}, {s.out, verbs.RemoteRead}, {s.in, into}} {
		if s.mrs[i], err = s.pd.RegisterMemory(m.b, m.access); err != nil {
			return err
		}
	}
	if s.cq, err = dev.CreateCQ(verbs.CQConfig{Depth: sendDepth + recvDepth}); err != nil {
		return err
	}
	s.qp, err = s.end.CreateQP(s.pd, verbs.QPConfig{
		Type: verbs.RC, SendCQ: s.cq, MaxSend: sendDepth, MaxRecv: recvDepth, MaxSendSGE: 1, MaxRecvSGE: 1,
	})
	if err != nil {
		return err
	}
	for i := range uint64(recvDepth) {
		if err := s.postReceive(i); err != nil {
			return err
		}
	}
	return nil
}

// close ends the connection and frees everything.
func (s *side) close() error {
	var errs []error
	if s.conn != nil {
		s.conn.Disconnect() // the peer may have done so before
	}
	for _, mr := range s.mrs {
		if mr != nil {
			errs = append(errs, cli.IgnoreClosed(mr.Deregister()))
		}
	}
	if s.conn != nil {
		errs = append(errs, cli.IgnoreClosed(s.conn.Close()))
	} else {
		errs = append(errs, cli.IgnoreClosed(s.end.abandon()))
	}
	if s.cq != nil {
		errs = append(errs, cli.IgnoreClosed(s.cq.Destroy()))
	}
	if s.pd != nil {
		errs = append(errs, cli.IgnoreClosed(s.pd.Dealloc()))
	}
	return errors.Join(errs...)
}

// connect connects the end.
func (s *side) connect(ctx context.Context) (err error) {
	s.conn, err = s.end.connect(ctx)
	if err != nil {
		s.conn = nil
	}
	return err
}

func (s *side) postReceive(slot uint64) error {
	return s.qp.PostRecv(verbs.RecvWR{WRID: slot, SGL: []verbs.SGE{s.mrs[0].SGE(int(slot)*verbs.RemoteMemoryLen, verbs.RemoteMemoryLen)}})
}

// send sends a message.
func (s *side) send(m message) error {
	at := recvDepth * verbs.RemoteMemoryLen
	if _, err := m.AppendBinary(s.messages[at:at]); err != nil {
		return err
	}
	return s.qp.PostSend(verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled, SGL: []verbs.SGE{s.mrs[0].SGE(at, verbs.RemoteMemoryLen)}})
}

// receive returns the peer's next message.
func (s *side) receive(ctx context.Context) (message, error) {
	if len(s.arrived) == 0 {
		if err := s.await(ctx, verbs.WCRecv); err != nil {
			return message{}, err
		}
	}
	m := s.arrived[0]
	s.arrived = s.arrived[1:]
	return m, nil
}

// transfer executes an operation on the memory that the peer's message describes.
func (s *side) transfer(ctx context.Context, op verbs.Op, m message, n int) error {
	err := s.qp.PostSend(verbs.SendWR{
		Op: op, Flags: verbs.Signaled, SGL: []verbs.SGE{s.mrs[2].SGE(0, n)}, RemoteAddr: m.Addr, RKey: m.RKey,
	})
	if err != nil {
		return err
	}
	completes := verbs.WCRead
	if op == verbs.OpWrite {
		completes = verbs.WCWrite
	}
	return s.await(ctx, completes)
}

// whileConnected returns a context that also ends with the connection.
func (s *side) whileConnected(ctx context.Context) (context.Context, func()) {
	ctx, end := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-s.conn.Done():
			end(s.conn.Err())
		case <-ctx.Done():
		}
	}()
	return ctx, func() { end(nil) }
}

// await waits for the completion of an operation and keeps messages that arrive
// meanwhile. It ends when ctx does or the peer is silent for too long.
func (s *side) await(ctx context.Context, op verbs.WCOp) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.p.timeout,
		cli.PeerErrorf("no message from %v for %v: is the peer still running, and is UDP port %d open?", s.conn.RemoteAddr(), s.p.timeout, verbs.Port))
	defer cancel()
	for ended := false; ; {
		n, err := s.cq.Poll(s.wcs[:])
		if err != nil {
			return err
		}
		found, err := s.take(s.wcs[:n], op)
		switch {
		case err != nil:
			return s.explainFlush(err)
		case found:
			return nil
		case n == 0 && ended:
			return context.Cause(ctx)
		case n == 0:
			ended = s.cq.Wait(ctx) != nil // earlier completions count
		}
	}
}

// take handles completions and reports whether one of op was among them.
func (s *side) take(wcs []verbs.WC, op verbs.WCOp) (found bool, err error) {
	for i := range wcs {
		w := &wcs[i]
		if err := w.Err(); err != nil {
			return found, err
		}
		if w.Op == verbs.WCRecv {
			if w.ByteLen != verbs.RemoteMemoryLen {
				return found, cli.PeerErrorf("%v sent a message of %d bytes, expected the %d of rping", s.conn.RemoteAddr(), w.ByteLen, verbs.RemoteMemoryLen)
			}
			m, err := verbs.ParseRemoteMemory(s.messages[int(w.WRID)*verbs.RemoteMemoryLen:])
			if err != nil {
				return found, err
			}
			s.arrived = append(s.arrived, m)
			if err := s.postReceive(w.WRID); err != nil {
				return found, err
			}
		}
		found = found || w.Op == op
	}
	return found, nil
}

// explainFlush returns the reason of a failed completion. A flushed request says only
// that the connection has ended, and the connection knows why.
func (s *side) explainFlush(err error) error {
	if cause := cli.DisconnectError(s.conn, err); cause != nil {
		return cause
	}
	return fmt.Errorf("%v: %w", s.conn.RemoteAddr(), err)
}
