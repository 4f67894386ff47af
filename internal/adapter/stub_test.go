package adapter

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"softrdma/internal/frame"
	"softrdma/internal/frame/rocev2"
	"softrdma/internal/link"
	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/psn"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
)

// A stub is a link without a network. It records sent packets and receives packets that the test
// provides.
type stub struct {
	local netip.AddrPort
	give  []byte // the packet that every Receive returns
	spend func() // called by Receive, if set
	from  netip.AddrPort

	forget bool // do not record sent packets

	mu     sync.Mutex
	sent   [][]byte // a batch each
	refuse error    // of Send
	broken bool     // Wait fails
	closed bool
	late   int // calls after Close that require an open link

	wake  chan struct{}
	waits atomic.Int32
}

func newStub(addr string) *stub {
	return &stub{local: netip.MustParseAddrPort(addr), wake: make(chan struct{}, 1)}
}

// networks returns the networks of lanes on stubs.
func networks(links ...*stub) []frame.Network { return rocev2.Networks(links) }

// use counts a call that a device must not make after the link is closed.
func (s *stub) use() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		s.late++
		return link.ErrClosed
	}
	return nil
}

func (s *stub) Local() netip.AddrPort { return s.local }
func (s *stub) OpenFlow(dst netip.AddrPort, _ uint32) (*link.DatagramFlow, error) {
	return &link.DatagramFlow{Src: s.local, Dst: dst}, s.use()
}
func (s *stub) Reply(dst netip.AddrPort) (*link.DatagramFlow, error) { return s.OpenFlow(dst, 0) }
func (s *stub) CloseFlow(*link.Flow)                                 {}
func (s *stub) Send(tx *link.Tx) error {
	if err := s.use(); err != nil {
		return err
	}
	if s.forget {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, bytes.Join(tx.Pieces, nil))
	return s.refuse
}
func (s *stub) Receive(rx *link.Rx) (bool, error) {
	if s.give == nil {
		return false, s.use()
	}
	if s.spend != nil {
		s.spend()
	}
	*rx = link.Rx{Data: bytes.Clone(s.give), Size: len(s.give), Src: s.from, Dst: s.local}
	return true, s.use()
}
func (s *stub) Wait(d time.Duration) error {
	s.waits.Add(1)
	var timeout <-chan time.Time
	if d >= 0 {
		timeout = time.After(d)
	}
	select {
	case <-s.wake:
	case <-timeout:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken {
		return errors.New("broken")
	}
	return nil
}
func (s *stub) Wake() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
func (s *stub) Join(netip.Addr) error  { return s.use() }
func (s *stub) Leave(netip.Addr) error { return nil }
func (s *stub) Capabilities() link.Capabilities {
	return link.Capabilities{Packets: link.MaxPackets, Bytes: link.MaxBatch, ReceiveBuffer: 1 << 20}
}
func (s *stub) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

func (s *stub) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sent)
}

// An end is a device on a stub with a queue pair in RTS.
type end struct {
	t    testing.TB
	link *stub
	dev  *Device
	pd   *PD
	cq   *CQ
	qp   *QP
	mr   *memory.Region
}

func newEnd(t testing.TB, addr string, cfg Config, typ qp.Type, depth int) *end {
	t.Helper()
	e := &end{t: t, link: newStub(addr)}
	cfg.Networks = append(networks(e.link), cfg.Networks...)
	e.dev = Open(cfg)
	t.Cleanup(func() { _ = e.dev.Close() })
	var err error
	e.pd, err = e.dev.AllocPD()
	e.check(err)
	e.cq, err = e.dev.CreateCQ(depth, nil)
	e.check(err)
	mem := make([]byte, 4096)
	e.mr, err = e.pd.Register(mem, memory.Addr(mem), qp.LocalWrite)
	e.check(err)
	e.qp = e.create(typ, e.cq)
	return e
}

func (e *end) check(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
}

// create makes a queue pair in RTS whose peer does not exist.
func (e *end) create(typ qp.Type, cq *CQ) *QP {
	e.t.Helper()
	q, err := e.pd.CreateQP(&QPConfig{Type: typ, SendCQ: cq, RecvCQ: cq, SendDepth: 16, SendSGE: 2, RecvDepth: 16, RecvSGE: 1})
	e.check(err)
	a := qp.Attr{
		Port: 1, PathMTU: 1024, DestQPN: 0x1234, Path: qp.Path{Dst: netip.MustParseAddrPort("192.0.2.9:4791")},
		Timeout: 1, RetryCnt: 7, RNRRetry: 7, MaxRdAtomic: 1, MaxDestRdAtomic: 1, QKey: 5,
	}
	masks := map[qp.State]qp.Mask{qp.Init: qp.MaskPKeyIndex | qp.MaskPort, qp.RTS: qp.MaskSQPSN}
	switch typ {
	case qp.UD:
		masks[qp.Init] |= qp.MaskQKey
	case qp.RC:
		masks[qp.RTR] |= qp.MaskMaxDestRdAtomic | qp.MaskMinRNRTimer
		masks[qp.RTS] |= qp.MaskTimeout | qp.MaskRetryCnt | qp.MaskRNRRetry | qp.MaskMaxRdAtomic
		fallthrough
	case qp.UC:
		masks[qp.Init] |= qp.MaskAccess
		masks[qp.RTR] |= qp.MaskAV | qp.MaskPathMTU | qp.MaskDestQPN | qp.MaskRQPSN
	}
	a.RQPSN, a.SQPSN = psn.New(1), psn.New(1)
	for _, a.State = range []qp.State{qp.Init, qp.RTR, qp.RTS} {
		e.check(q.Modify(masks[a.State]|qp.MaskState, &a))
	}
	return q
}

// send posts n signalled messages without data.
func (e *end) send(q *QP, n int, w queue.SendWQE) {
	i := q.SQ.Producer()
	for range n {
		*q.SQ.At(i) = w
		i = q.SQ.Next(i)
	}
	q.SQ.Publish(i)
	q.Doorbell()
}

// leave posts as send does, but on a lane whose holder has just checked for doorbells and has not
// unlocked it yet.
func (e *end) leave(q *QP, n int, w queue.SendWQE) {
	i := q.SQ.Producer()
	for range n {
		*q.SQ.At(i) = w
		i = q.SQ.Next(i)
	}
	q.SQ.Publish(i)
	l := q.lane
	l.Bell.Lock()
	q.rung.Store(true)
	l.bells = append(l.bells, q)
	l.Bell.Ring()
	l.Bell.Unlock()
}

func (e *end) recv() {
	r := e.qp.Recv
	i := r.Producer()
	*r.At(i) = queue.RecvWQE{NumSGE: 1}
	r.SGERoom(i)[0] = memory.SGE{Addr: e.mr.Base, Length: 64, LKey: e.mr.Key}
	r.Publish(r.Next(i))
}

// datagram is a UD packet without data from another device to e's queue pair.
func (e *end) datagram() ([]byte, netip.AddrPort) {
	p := newEnd(e.t, "192.0.2.8:4791", Config{Manual: true}, qp.UD, 16)
	ah, err := p.pd.CreateAH(qp.Path{Dst: e.link.local})
	e.check(err)
	w := queue.SendWQE{Op: queue.Send}
	*w.UD() = queue.UD{RemoteQPN: e.qp.QPN, RemoteQKey: 5, AHNum: ah}
	p.send(p.qp, 1, w)
	if len(p.link.sent) != 1 {
		e.t.Fatalf("sent %d datagrams, expected 1", len(p.link.sent))
	}
	return p.link.sent[0], p.link.local
}

// next waits for an event of one type.
func (e *end) next(want machine.Event) AsyncEvent {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for {
		v, err := e.dev.NextEvent(ctx)
		if err != nil {
			e.t.Fatalf("waiting for event %d: %v", want, err)
		}
		if v.Type == want {
			return v
		}
	}
}
