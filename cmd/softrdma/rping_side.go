package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"softrdma/rdmacm"
	"softrdma/verbs"
)

// An rpingEnd is one end before it is connected: the device is known, and its
// queue pair takes receives.
type rpingEnd interface {
	Device() *verbs.Device
	RemoteAddr() netip.AddrPort
	CreateQP(*verbs.PD, verbs.QPConfig) (*verbs.QP, error)
	connect(context.Context) (rpingLink, error) // or accept
	abandon() error
}

// An rpingLink is a connection.
type rpingLink interface {
	RemoteAddr() netip.AddrPort
	Done() <-chan struct{}
	Err() error
	Disconnect() error
	Close() error
}

// endpoint is a client's end in the hands of the connection manager.
type endpoint struct {
	*rdmacm.Endpoint
	p *rping
}

func (e endpoint) connect(ctx context.Context) (rpingLink, error) {
	return e.Connect(ctx, e.p.param())
}
func (e endpoint) abandon() error { return e.Close() }

// request is a server's end in the hands of the connection manager.
type request struct {
	*rdmacm.Request
	p *rping
}

func (r request) connect(ctx context.Context) (rpingLink, error) {
	return r.Accept(ctx, rdmacm.ConnParam{})
}
func (r request) abandon() error { return r.Reject(nil) }

// resolve finds the client's device.
func (p *rping) resolve(ctx context.Context, dev *verbs.Device) (rpingEnd, error) {
	if p.own {
		return resolveOwn(ctx, p, dev)
	}
	d := rdmacm.Dialer{Device: dev, Protocol: p.protocol.protocol()}
	e, err := d.Resolve(ctx, p.at())
	if err != nil {
		return nil, err
	}
	return endpoint{e, p}, nil
}

const (
	rpingSends = 16 // depth of the send queue
	rpingRecvs = 2  // depth of the receive queue

	// rpingGrace is how long an interrupted client goes on with the ping that it
	// is in, so that the server sees an end in order.
	rpingGrace = time.Second
)

// An rpingSide is one end of a connection with its memory: the messages, the
// ping that goes out, and the one that comes.
type rpingSide struct {
	p        *rping
	end      rpingEnd
	link     rpingLink // nil before connect
	pd       *verbs.PD
	cq       *verbs.CQ
	qp       *verbs.QP
	messages []byte // rpingRecvs received ones and one to send
	out, in  []byte
	mrs      [3]*verbs.MR // of messages, out, in
	arrived  []rpingMessage
	wcs      [rpingSends + rpingRecvs]verbs.WC
}

// newRpingSide makes the end's objects and posts receives. After an error the
// end is given up.
func newRpingSide(p *rping, end rpingEnd) (*rpingSide, error) {
	s := &rpingSide{p: p, end: end, messages: make([]byte, (rpingRecvs+1)*rpingMessageLen), in: make([]byte, p.size)}
	if p.client {
		s.out = make([]byte, p.size)
	}
	if err := s.make(); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *rpingSide) make() (err error) {
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
	if s.cq, err = dev.CreateCQ(verbs.CQConfig{Depth: rpingSends + rpingRecvs}); err != nil {
		return err
	}
	s.qp, err = s.end.CreateQP(s.pd, verbs.QPConfig{
		Type: verbs.RC, SendCQ: s.cq, MaxSend: rpingSends, MaxRecv: rpingRecvs, MaxSendSGE: 1, MaxRecvSGE: 1,
	})
	if err != nil {
		return err
	}
	for i := range uint64(rpingRecvs) {
		if err := s.postReceive(i); err != nil {
			return err
		}
	}
	return nil
}

// close ends the connection and gives everything up.
func (s *rpingSide) close() error {
	var errs []error
	if s.link != nil {
		s.link.Disconnect() // the peer may have, before
	}
	for _, mr := range s.mrs {
		if mr != nil {
			errs = append(errs, unlessGone(mr.Deregister()))
		}
	}
	if s.link != nil {
		errs = append(errs, unlessGone(s.link.Close()))
	} else {
		errs = append(errs, unlessGone(s.end.abandon()))
	}
	if s.cq != nil {
		errs = append(errs, unlessGone(s.cq.Destroy()))
	}
	if s.pd != nil {
		errs = append(errs, unlessGone(s.pd.Dealloc()))
	}
	return errors.Join(errs...)
}

// connect connects the end.
func (s *rpingSide) connect(ctx context.Context) (err error) {
	s.link, err = s.end.connect(ctx)
	if err != nil {
		s.link = nil
	}
	return err
}

func (s *rpingSide) postReceive(slot uint64) error {
	return s.qp.PostRecv(verbs.RecvWR{WRID: slot, SGL: []verbs.SGE{s.mrs[0].SGE(int(slot)*rpingMessageLen, rpingMessageLen)}})
}

// send sends a message.
func (s *rpingSide) send(m rpingMessage) error {
	at := rpingRecvs * rpingMessageLen
	m.put(s.messages[at:])
	return s.qp.PostSend(verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled, SGL: []verbs.SGE{s.mrs[0].SGE(at, rpingMessageLen)}})
}

// receive takes the peer's next message.
func (s *rpingSide) receive(ctx context.Context) (rpingMessage, error) {
	if len(s.arrived) == 0 {
		if err := s.await(ctx, verbs.WCRecv); err != nil {
			return rpingMessage{}, err
		}
	}
	m := s.arrived[0]
	s.arrived = s.arrived[1:]
	return m, nil
}

// transfer carries out an operation on the memory that the peer has told of.
func (s *rpingSide) transfer(ctx context.Context, op verbs.Op, m rpingMessage, n int) error {
	err := s.qp.PostSend(verbs.SendWR{
		Op: op, Flags: verbs.Signaled, SGL: []verbs.SGE{s.mrs[2].SGE(0, n)}, RemoteAddr: m.addr, RKey: m.rkey,
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

// whileConnected gives a context that ends with the connection too.
func (s *rpingSide) whileConnected(ctx context.Context) (context.Context, func()) {
	ctx, end := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-s.link.Done():
			end(s.link.Err())
		case <-ctx.Done():
		}
	}()
	return ctx, func() { end(nil) }
}

// await waits for the completion of an operation; messages that come meanwhile
// are kept. It ends with ctx and after the peer's time.
func (s *rpingSide) await(ctx context.Context, op verbs.WCOp) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.p.timeout,
		peerErrorf("nothing came from %v for %v: is the peer still there, and UDP port %d open?", s.link.RemoteAddr(), s.p.timeout, verbs.Port))
	defer cancel()
	for ended := false; ; {
		n, err := s.cq.Poll(s.wcs[:])
		if err != nil {
			return err
		}
		found, err := s.take(s.wcs[:n], op)
		switch {
		case err != nil:
			return s.why(err)
		case found:
			return nil
		case n == 0 && ended:
			return context.Cause(ctx)
		case n == 0:
			ended = s.cq.Wait(ctx) != nil // what has completed before counts
		}
	}
}

// take handles completions and tells whether one of op was among them.
func (s *rpingSide) take(wcs []verbs.WC, op verbs.WCOp) (found bool, err error) {
	for i := range wcs {
		w := &wcs[i]
		if err := w.Err(); err != nil {
			return found, err
		}
		if w.Op == verbs.WCRecv {
			if w.ByteLen != uint32(rpingMessageLen) {
				return found, peerErrorf("%v sent a message of %d bytes, expected the %d of rping", s.link.RemoteAddr(), w.ByteLen, rpingMessageLen)
			}
			s.arrived = append(s.arrived, parseRpingMessage(s.messages[int(w.WRID)*rpingMessageLen:]))
			if err := s.postReceive(w.WRID); err != nil {
				return found, err
			}
		}
		found = found || w.Op == op
	}
	return found, nil
}

// why is the reason of an unsuccessful completion: a flushed request says only
// that the connection has ended, which the link knows more of.
func (s *rpingSide) why(err error) error {
	var c *verbs.CompletionError
	if !errors.As(err, &c) || c.Status != verbs.WRFlushErr {
		return fmt.Errorf("%v: %w", s.link.RemoteAddr(), err)
	}
	select {
	case <-s.link.Done():
		return s.link.Err()
	case <-time.After(rpingGrace):
		return fmt.Errorf("%v: %w", s.link.RemoteAddr(), err)
	}
}
