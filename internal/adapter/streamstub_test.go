package adapter

import (
	"cmp"
	"net/netip"
	"slices"
	"testing"
	"time"

	"softrdma/internal/iwarp"
	"softrdma/internal/link"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	wire "softrdma/internal/wire/iwarp"
)

// A streamStub is a link for streams without a network. The test acts as the peer.
type streamStub struct {
	*stub
	refuse error // of Dial
	dialed []*stubStream
	listen *stubListener
	ready  []link.Readiness
}

func (s *streamStub) Listen(port uint16, _ int, owner any) (link.Listener, error) {
	s.listen = &stubListener{s: s, owner: owner, addr: netip.AddrPortFrom(s.local.Addr(), port)}
	return s.listen, nil
}

// A stubListener is a listener that the test connects to.
type stubListener struct {
	s      *streamStub
	owner  any
	addr   netip.AddrPort
	come   int        // streams to accept
	from   netip.Addr // of their peers; stubPeer's if it is not set
	err    error      // of Accept
	closed bool
}

func (l *stubListener) Addr() netip.AddrPort { return l.addr }
func (l *stubListener) Close() error         { l.closed = true; return nil }

func (l *stubListener) Accept(owner any) (link.Stream, error) {
	switch {
	case l.err != nil:
		return nil, l.err
	case l.come == 0:
		return nil, link.ErrWouldBlock
	}
	l.come--
	c := &stubStream{owner: owner, local: l.addr, remote: netip.AddrPortFrom(cmp.Or(l.from, stubPeer.Addr()), uint16(50000+len(l.s.dialed)))}
	l.s.dialed = append(l.s.dialed, c)
	return c, nil
}

func (s *streamStub) Dial(port uint16, dst netip.AddrPort, _ uint8, owner any) (link.Stream, error) {
	if s.refuse != nil {
		return nil, s.refuse
	}
	if port == 0 {
		port = uint16(40000 + len(s.dialed))
	}
	c := &stubStream{owner: owner, connects: link.ErrWouldBlock, local: netip.AddrPortFrom(s.local.Addr(), port), remote: dst}
	s.dialed = append(s.dialed, c)
	return c, nil
}

func (s *streamStub) Ready(list []link.Readiness) (int, error) {
	n := copy(list, s.ready)
	s.ready = s.ready[n:]
	return n, nil
}

// A stubStream is a stream whose other end is the test.
type stubStream struct {
	owner         any
	local, remote netip.AddrPort
	connects      error
	in, out       []byte
	readErr       error // behind in
	writeErr      error
	halved        bool
	closed, reset bool
}

func (c *stubStream) Local() netip.AddrPort  { return c.local }
func (c *stubStream) Remote() netip.AddrPort { return c.remote }
func (c *stubStream) Connected() error       { return c.connects }
func (c *stubStream) Segment() int           { return 0 }
func (c *stubStream) Held() int              { return 0 }
func (c *stubStream) ShutWrite() error       { c.halved = true; return nil }
func (c *stubStream) Close() error           { c.closed = true; return nil }
func (c *stubStream) Reset() error           { c.closed, c.reset = true, true; return nil }

func (c *stubStream) Read(pieces [][]byte) (n int, err error) {
	for _, p := range pieces {
		k := copy(p, c.in)
		c.in = c.in[k:]
		n += k
	}
	switch {
	case n > 0:
		return n, nil
	case c.readErr != nil:
		return 0, c.readErr
	}
	return 0, link.ErrWouldBlock
}

func (c *stubStream) Write(pieces [][]byte) (n int, err error) {
	if c.writeErr != nil {
		return 0, c.writeErr
	}
	for _, p := range pieces {
		c.out = append(c.out, p...)
		n += len(p)
	}
	return n, nil
}

// A streamEnd is a device on a streamStub, with a queue pair in INIT.
type streamEnd struct {
	t      *testing.T
	link   *streamStub
	dev    *Device
	pd     *PD
	cq     *CQ
	qp     *QP
	mr     *memory.Region
	now    time.Duration
	events []StreamEvent
}

var stubPeer = netip.MustParseAddrPort("192.0.2.9:7")

func newStreamEnd(t *testing.T) *streamEnd {
	t.Helper()
	e := &streamEnd{t: t, link: &streamStub{stub: newStub("192.0.2.1:0")}}
	e.dev = Open(Config{Streams: e.link, Manual: true, Clock: func() time.Duration { return e.now }})
	t.Cleanup(func() { _ = e.dev.Close() })
	var err error
	e.pd, err = e.dev.AllocPD()
	e.check(err)
	e.cq, err = e.dev.CreateCQ(64, nil)
	e.check(err)
	mem := make([]byte, 4096)
	e.mr, err = e.pd.Register(mem, memory.Addr(mem), qp.LocalWrite)
	e.check(err)
	e.qp, err = e.pd.CreateQP(&QPConfig{Type: qp.RC, SendCQ: e.cq, RecvCQ: e.cq, SendDepth: 16, SendSGE: 1, RecvDepth: 16, RecvSGE: 1, SignalAll: true})
	e.check(err)
	e.check(e.qp.Modify(qp.MaskState|qp.MaskPKeyIndex|qp.MaskPort|qp.MaskAccess, &qp.Attr{State: qp.Init, Port: 1}))
	return e
}

func (e *streamEnd) check(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
}

func (e *streamEnd) handle(v *StreamEvent) {
	k := *v
	k.Private = slices.Clone(v.Private)
	e.events = append(e.events, k)
}

// dial begins a connection, as connection manager ids do.
func (e *streamEnd) dial(p iwarp.Params) *Stream {
	e.t.Helper()
	p.ClientServer = true
	c, err := e.dev.Dial(&DialConfig{Dst: stubPeer, QPN: e.qp.QPN, Params: p}, e.handle)
	e.check(err)
	return c
}

// stream is the connection that was dialled last.
func (e *streamEnd) stream() *stubStream { return e.link.dialed[len(e.link.dialed)-1] }

// tell reports the readiness of the last connection to the device.
func (e *streamEnd) tell(r link.Readiness) {
	if !e.stream().closed {
		r.Owner = e.stream().owner
		e.link.ready = append(e.link.ready, r)
	}
	e.dev.Progress()
}

// connect connects the stream and returns the bytes sent.
func (e *streamEnd) connect() []byte {
	e.stream().connects = nil
	e.tell(link.Readiness{Writable: true})
	return e.sent()
}

func (e *streamEnd) sent() []byte {
	b := e.stream().out
	e.stream().out = nil
	return b
}

// receive delivers bytes from the peer.
func (e *streamEnd) receive(b []byte) {
	e.stream().in = append(e.stream().in, b...)
	e.tell(link.Readiness{Readable: true})
}

// breaks ends the stream from the peer's side.
func (e *streamEnd) breaks(err error) {
	e.stream().readErr = err
	e.tell(link.Readiness{Readable: true, Writable: true, Hangup: true})
}

// replyOf returns a reply of revision 1.
func replyOf(private string) []byte {
	f := wire.Frame{Reply: true, Flags: wire.FlagCRC, Revision: 1, Private: uint16(len(private))}
	b := make([]byte, wire.FrameLen)
	f.Put(b)
	return append(b, private...)
}

// establish connects with a peer of revision 1.
func (e *streamEnd) establish() *Stream {
	e.t.Helper()
	c := e.dial(iwarp.Params{Revision: 1, IRD: 1, ORD: 1})
	e.connect()
	e.receive(replyOf(""))
	if e.qp.Query().State != qp.RTS {
		e.t.Fatalf("heard %+v", e.events)
	}
	e.sent()
	e.events = nil
	return c
}

// post posts requests of 8 bytes each.
func (e *streamEnd) post(n int, op queue.Op) {
	i := e.qp.SQ.Producer()
	for range n {
		w := e.qp.SQ.At(i)
		*w = queue.SendWQE{Op: op, NumSGE: 1}
		*w.RDMA() = queue.RDMA{Addr: 0x1000, RKey: 0x77}
		e.qp.SQ.SGERoom(i)[0] = memory.SGE{Addr: e.mr.Base, Length: 8, LKey: e.mr.Key}
		i = e.qp.SQ.Next(i)
	}
	e.qp.SQ.Publish(i)
	e.qp.Doorbell()
}

// completions removes and returns the completions.
func (e *streamEnd) completions() (list []queue.CQE) {
	r := e.cq.Ring()
	for i := r.Consumer(); i != r.Producer(); i = r.Next(i) {
		list = append(list, *r.At(i))
		r.Release(r.Next(i))
	}
	return list
}
