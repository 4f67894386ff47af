package rc

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"
	"time"
	"unsafe"

	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/psn"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/trace"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/ib/own"
)

// completions is an unbounded completion queue.
type completions struct{ list []queue.CQE }

func (c *completions) Push(e *queue.CQE) { c.list = append(c.list, *e) }

// receives is a receive queue on a ring.
type receives struct {
	*queue.RecvRing
	shared bool
}

func (q *receives) Shared() bool { return q.shared }

func (q *receives) Take(r *machine.Receive) bool {
	i := q.Consumer()
	if i == q.Producer() {
		return false
	}
	r.WRID = q.At(i).WRID
	r.SGEs = append(r.SGEs[:0], q.SGEs(i)...)
	r.Length = 0
	for _, s := range r.SGEs {
		r.Length += uint64(s.Length)
	}
	q.Release(q.Next(i))
	return true
}

// reports is a host that records its calls.
type reports struct {
	events  []machine.Event
	refused []reason.Detail
	states  []qp.State
}

func (h *reports) Event(_ *machine.Port, e machine.Event, _ reason.Detail) {
	h.events = append(h.events, e)
}
func (h *reports) Refuse(_ *machine.Port, d reason.Detail) { h.refused = append(h.refused, d) }
func (h *reports) StateChanged(p *machine.Port, _ qp.State, _ reason.Detail) {
	h.states = append(h.states, p.Attr.State)
}

func (h *reports) count(r reason.Reason) (n int) {
	for _, d := range h.refused {
		if d.Reason == r {
			n++
		}
	}
	return n
}

func (h *reports) raised(e machine.Event) (n int) {
	for _, x := range h.events {
		if x == e {
			n++
		}
	}
	return n
}

// node is one end of a connection.
type node struct {
	reports
	port machine.Port
	q    *QP
	addr netip.AddrPort
	mem  []byte
	mr   *memory.Region
	rq   *receives
	send completions
	recv completions
	wr   uint64

	traffic trace.Traffic // only what was received
}

// m is the node's machine.
func (n *node) m() interface {
	machine.Machine
	machine.Receiver
} {
	if n.port.Type != qp.RC {
		return XRC{QP: n.q}
	}
	return n.q
}

// packet is the bytes of a packet in flight.
type packet struct {
	b     []byte
	src   netip.AddrPort
	train int
}

// pair is two ends with a simulated network between them.
type pair struct {
	t    testing.TB
	now  time.Duration
	n    [2]*node
	wire [2][]packet // to be delivered to n[i]
	sent [2][]ib.Packet

	// fate returns how many copies of the i-th packet to n[to] arrive, and after how many later
	// packets. Nil delivers each packet once, in order.
	fate  func(to, i int, p *ib.Packet) (copies, late int)
	count [2]int
	keep  bool // record sent packets

	longest  func() int // longest train to send; nil sends packets
	lossless bool       // what machine.Out says of the way

	// lender returns the owner of a payload that node i is about to receive. Nil lends none.
	lender func(i int, payload []byte) machine.Lender

	// unread reports whether node i cannot read the payload of a packet. Nil reads all.
	unread func(i int, p *ib.Packet) bool

	// tell returns what switches say of a packet that node i is about to receive. Nil says nothing.
	tell func(i int, p *ib.Packet) []own.Hop

	fastPath bool // offer packets to Continue first
	taken    int  // packets that Continue took
}

const (
	testMTU  = 256
	testMem  = 1 << 16
	testPSN0 = 0xfffffe
	testPSN1 = 0xfffff0
)

const allAccess = qp.LocalWrite | qp.RemoteWrite | qp.RemoteRead | qp.RemoteAtomic | qp.MWBind | qp.FlushGlobal

// newPair connects two queue pairs without extensions. tune may change each port first.
func newPair(t testing.TB, tune func(i int, p *machine.Port)) *pair {
	return newPairWith(t, [2]Config{}, tune)
}

// newPairWith connects two queue pairs with the given configurations.
func newPairWith(t testing.TB, c [2]Config, tune func(i int, p *machine.Port)) *pair {
	w := &pair{t: t, keep: true}
	for i := range w.n {
		w.n[i] = newNode(t, i, tune)
		w.n[i].q = New(&w.n[i].port, c[i])
	}
	for _, n := range w.n {
		n.to(w.now, qp.Init)
		n.to(w.now, qp.RTR)
		n.to(w.now, qp.RTS)
	}
	return w
}

var testAddrs = [2]netip.AddrPort{netip.MustParseAddrPort("10.0.0.1:4791"), netip.MustParseAddrPort("10.0.0.2:4791")}

func newNode(t testing.TB, i int, tune func(i int, p *machine.Port)) *node {
	n := &node{addr: testAddrs[i]}
	words := make([]uint64, testMem/8)
	n.mem = asBytes(words)
	tab := memory.NewTable()
	mr, err := tab.Register(7, n.mem, 0x10000, allAccess)
	if err != nil {
		t.Fatal(err)
	}
	n.mr = mr
	n.rq = &receives{RecvRing: queue.NewRecvRing(63, 4)}
	psns := [2]uint32{testPSN0, testPSN1}
	n.port = machine.Port{
		QPN: uint32(0x100 + i), Type: qp.RC, PD: 7, RecvPD: 7, Memory: tab, SQ: queue.NewSendRing(63, 4, 64),
		SQSigAll: true, RQ: n.rq, SendCQ: &n.send, RecvCQ: &n.recv, Host: n, Window: 1 << 20,
		Attr: qp.Attr{
			PathMTU: testMTU, DestQPN: uint32(0x101 - i), Access: allAccess,
			Path: qp.Path{Dst: testAddrs[1-i]}, MaxRdAtomic: 4, MaxDestRdAtomic: 4, MinRNRTimer: 1,
			Timeout: 8, RetryCnt: 7, RNRRetry: 7, Port: 1,
		},
	}
	n.port.Attr.SQPSN = psn.New(psns[i])
	n.port.Attr.RQPSN = psn.New(psns[1-i])
	if tune != nil {
		tune(i, &n.port)
	}
	n.q = New(&n.port, Config{})
	return n
}

func (n *node) to(now time.Duration, s qp.State) {
	from := n.port.Attr.State
	n.port.Attr.State = s
	n.q.Transition(now, from)
}

// sge names n bytes of the node's memory at offset off.
func (n *node) sge(off, length int) memory.SGE {
	return memory.SGE{Addr: n.mr.Base + uint64(off), Length: uint32(length), LKey: n.mr.Key}
}

// wqe is a work request to post.
type wqe struct {
	op     queue.Op
	flags  queue.Flags
	imm    uint32
	list   []memory.SGE
	inline []byte
	remote queue.RDMA
	atomic queue.Atomic
	mw     queue.MW
	flush  queue.FlushTarget
	length uint32 // of a FLUSH
	word   uint64 // of an ATOMIC WRITE
	srqn   uint32 // XRC
}

func (n *node) post(w wqe) uint64 {
	sq := n.port.SQ
	if sq.Full() {
		panic("send queue full")
	}
	i := sq.Producer()
	s := sq.At(i)
	*s = queue.SendWQE{WRID: n.wr, SRQN: w.srqn, Op: w.op, Flags: w.flags, ImmInv: w.imm, NumSGE: uint32(len(w.list))}
	switch w.op {
	case queue.CompareSwap, queue.FetchAdd:
		*s.Atomic() = w.atomic
	case queue.BindMW:
		*s.MW() = w.mw
	case queue.Flush:
		*s.Flush(), s.Length = w.flush, w.length
	default:
		*s.RDMA() = w.remote
	}
	if w.op == queue.AtomicWrite {
		binary.NativeEndian.PutUint64(sq.Word(i)[:], w.word)
	} else if w.flags&queue.Inline != 0 {
		s.Length = uint32(len(w.inline))
		copy(sq.InlineRoom(i), w.inline)
	} else {
		copy(sq.SGERoom(i), w.list)
		for _, e := range w.list {
			s.Length += e.Length
		}
	}
	sq.Publish(sq.Next(i))
	n.wr++
	return n.wr - 1
}

func (n *node) postRecv(wrid uint64, list ...memory.SGE) {
	i := n.rq.Producer()
	r := n.rq.At(i)
	*r = queue.RecvWQE{WRID: wrid, NumSGE: uint32(len(list))}
	copy(n.rq.SGERoom(i), list)
	n.rq.Publish(n.rq.Next(i))
}

// take moves node i's packets onto the wire and returns how many there were.
func (w *pair) take(i, most int) (n int) {
	var out machine.Out
	for ; n < most; n++ {
		out.Lossless = w.lossless
		if w.longest != nil {
			out.Longest = w.longest()
		}
		if !w.n[i].m().Next(w.now, &out) {
			break
		}
		w.put(i, &out)
	}
	return n
}

func (w *pair) put(from int, out *machine.Out) {
	to := 1 - from
	got := 0
	p := out.Packet
	p.Payload = nil
	for _, b := range out.Pieces {
		got += len(b)
		p.Payload = append(p.Payload, b...)
	}
	if got != out.Len {
		w.t.Fatalf("Len is %d, pieces have %d bytes", out.Len, got)
	}
	if out.Path != &w.n[from].port.Attr.Path {
		w.t.Fatal("packet without the connection's path")
	}
	p.Pad = ib.PadLen(got)
	b := append(p.Append(nil), 0, 0, 0, 0)
	if w.keep {
		w.sent[to] = append(w.sent[to], p)
	}
	copies, late := 1, 0
	if w.fate != nil {
		copies, late = w.fate(to, w.count[to], &p)
	}
	w.count[to]++
	for range copies {
		at := max(0, len(w.wire[to])-late)
		w.wire[to] = append(w.wire[to], packet{})
		copy(w.wire[to][at+1:], w.wire[to][at:])
		w.wire[to][at] = packet{bytes.Clone(b), w.n[from].addr, out.Train}
	}
}

// deliver delivers up to most packets to node i and returns how many.
func (w *pair) deliver(i, most int) (n int) {
	for n = 0; n < most && len(w.wire[i]) > 0; n++ {
		p := w.wire[i][0]
		w.wire[i] = w.wire[i][1:]
		w.give(i, p)
	}
	return n
}

func (w *pair) give(i int, p packet) {
	in := machine.In{Src: p.src, Dst: w.n[i].addr, Train: p.train}
	if f := in.Parse(p.b); f != ib.OK {
		w.t.Fatalf("node %d was sent a malformed packet: fault %d, %v", i, f, in.Opcode)
	}
	if w.lender != nil && len(in.Payload) > 0 {
		in.Lender = w.lender(i, in.Payload)
	}
	if w.unread != nil && len(in.Payload) > 0 && w.unread(i, &in.Packet) {
		in.Lost, in.Payload, in.Lender = true, nil, nil
	}
	if w.tell != nil {
		in.Hops = w.tell(i, &in.Packet)
	}
	if w.fastPath && !in.Lost && in.Train <= 1 && w.n[i].q.Continue(w.now, &in) {
		machine.Continued(&w.n[i].traffic, &w.n[i].port, &in)
		w.taken++
	} else {
		machine.Deliver(&w.n[i].traffic, &w.n[i].port, w.now, w.n[i].m(), &in)
	}
	for k := range p.b {
		p.b[k] = 0xdb // the caller may reuse the buffer
	}
}

// inject delivers a packet to node i that the peer never sent.
func (w *pair) inject(i int, p ib.Packet) {
	p.DestQPN = w.n[i].port.QPN
	p.Pad = ib.PadLen(len(p.Payload))
	w.give(i, packet{b: append(p.Append(nil), 0, 0, 0, 0), src: testAddrs[1-i]})
}

// step moves packets once and reports whether there was anything to move.
func (w *pair) step() bool {
	w.now += time.Microsecond
	n := w.take(0, 1<<20) + w.take(1, 1<<20)
	n += w.deliver(0, 1<<20) + w.deliver(1, 1<<20)
	return n > 0
}

// settle runs until no packets move and no timer is set.
func (w *pair) settle() {
	w.t.Helper()
	w.runUntil(machine.Never)
}

// runUntil runs until no packets move and no timer is set before a time.
func (w *pair) runUntil(end time.Duration) {
	w.t.Helper()
	for range 200000 {
		if w.step() {
			continue
		}
		d := min(w.n[0].q.Deadline(), w.n[1].q.Deadline())
		if d == machine.Never || d > end {
			return
		}
		w.now = max(w.now, d)
		for _, n := range w.n {
			if n.q.Deadline() <= w.now {
				n.q.Expire(w.now)
			}
		}
	}
	w.t.Fatal("the pair does not come to rest")
}

// refuseFirst makes node i refuse a first message that waits for a receive.
func (w *pair) refuseFirst(i int) {
	b := w.n[i]
	for b.count(reason.NoReceive) == 0 {
		w.now = b.q.Deadline()
		b.q.Expire(w.now)
	}
	w.quiet()
}

// quiet runs until no packets move, without firing timers.
func (w *pair) quiet() {
	for w.step() {
	}
}

// statuses returns the statuses of completions.
func statuses(c *completions) (s []queue.Status) {
	for _, e := range c.list {
		s = append(s, e.Status)
	}
	return s
}

func (w *pair) wantStatuses(c *completions, want ...queue.Status) {
	w.t.Helper()
	got := statuses(c)
	if len(got) != len(want) {
		w.t.Fatalf("completions %v, want %v", got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			w.t.Fatalf("completions %v, want %v", got, want)
		}
	}
}

func (w *pair) opcodes(to int) (o []ib.Opcode) {
	for _, p := range w.sent[to] {
		o = append(o, p.Opcode)
	}
	return o
}

func asBytes(w []uint64) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(w))), 8*len(w))
}
