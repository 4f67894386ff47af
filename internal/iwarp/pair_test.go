package iwarp

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"softrdma/internal/machine/machinetest"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
)

const allAccess = qp.LocalWrite | qp.RemoteWrite | qp.RemoteRead | qp.RemoteAtomic | qp.MWBind

// memLen is the size of the memory that each end registers.
const memLen = 1 << 20

// A node is one end of a pair: a recording port, a queue pair and a stream.
type node struct {
	*machinetest.Port
	q      *QP
	s      *Stream
	region *memory.Region
	mem    []byte
	events []Event
	out    Out
	unread []byte // in flight to this end
	limit  int    // total bytes that the socket accepts; 0 means no limit
	sent   int
	closed bool // this end has read the peer's end of the stream
	shut   Shut
}

// sge returns an entry for n bytes of the node's memory.
func (n *node) sge(off, length int) memory.SGE { return machinetest.SGE(n.region, off, length) }

// target returns the node's memory as a remote address for its peer.
func (n *node) target(off int) queue.RDMA {
	return queue.RDMA{Addr: n.region.Base + uint64(off), RKey: n.region.Key}
}

func (n *node) last() Event {
	if len(n.events) == 0 {
		return Event{}
	}
	return n.events[len(n.events)-1]
}

// A pair is two nodes and the two byte streams between them, which arrive in pieces of random
// length.
type pair struct {
	tb       testing.TB
	n        [2]*node
	now      time.Duration
	rnd      *rand.Rand
	scratch  [16 << 10]byte
	maxPiece int                      // longest piece
	tamper   func(to int, b []byte)   // sees what is sent before it is received
	sniff    func(from int, b []byte) // sees what is sent
	late     func(i int)              // posts receives that a message waits for
}

// newPair makes two ends in INIT with a TCP connection. alter may change each port before its queue
// pair is made.
func newPair(tb testing.TB, alter func(i int, p *machinetest.Port)) *pair {
	return newPairOf(tb, memLen, alter)
}

// newPairOf makes a pair whose ends have the given amount of memory.
func newPairOf(tb testing.TB, mem int, alter func(i int, p *machinetest.Port)) *pair {
	p := &pair{tb: tb, rnd: rand.New(rand.NewPCG(1, 2)), maxPiece: 1 << 20}
	for i := range p.n {
		n := &node{Port: machinetest.New(qp.RC, uint32(0x100+i), 256)}
		n.Attr.Access = qp.RemoteWrite | qp.RemoteRead | qp.RemoteAtomic
		n.Attr.State = qp.Init
		n.region, n.mem = n.Register(mem, allAccess)
		if alter != nil {
			alter(i, n.Port)
		}
		n.q = New(&n.Port.Port)
		n.s = NewStream(&Pool{}, func(e *Event) {
			x := *e
			x.Private = append([]byte(nil), e.Private...)
			n.events = append(n.events, x)
		})
		p.n[i] = n
	}
	return p
}

// connect sets up the connection with node 0 as initiator.
func (p *pair) connect(a, b *Params) {
	p.tb.Helper()
	p.begin(a)
	p.run()
	if e := p.n[1].last(); e.Kind != Requested {
		p.tb.Fatalf("responder heard %+v, expected a request", e)
	}
	if err := p.n[1].s.Accept(p.now, p.n[1].q, b); err != nil {
		p.tb.Fatal(err)
	}
	p.run()
	for i, n := range p.n {
		if n.last().Kind != Established || n.Attr.State != qp.RTS {
			p.tb.Fatalf("node %d is in %v and heard %+v, refused %v", i, n.Attr.State, n.events, n.Refused)
		}
	}
}

func (p *pair) begin(a *Params) {
	p.tb.Helper()
	if err := p.n[1].s.Listen(p.now, 0); err != nil {
		p.tb.Fatal(err)
	}
	if err := p.n[0].s.Connect(p.now, p.n[0].q, a); err != nil {
		p.tb.Fatal(err)
	}
}

func defaults() *Params { return &Params{IRD: 4, ORD: 4} }

// write moves bytes from a node to its peer's unread bytes.
func (p *pair) write(i int) bool {
	n, to := p.n[i], p.n[1-i]
	if !n.s.Next(p.now, &n.out) {
		return false
	}
	sum := 0
	for _, b := range n.out.Pieces {
		sum += len(b)
	}
	if sum != n.out.Len || sum == 0 {
		p.tb.Fatalf("out.Len is %d, the pieces have %d bytes", n.out.Len, sum)
	}
	take := min(sum, 1+p.rnd.IntN(p.maxPiece))
	if n.limit > 0 {
		take = min(take, n.limit-n.sent)
	}
	left := take
	start := len(to.unread)
	for _, b := range n.out.Pieces {
		k := min(left, len(b))
		to.unread = append(to.unread, b[:k]...)
		left -= k
	}
	n.sent += take
	if p.sniff != nil {
		p.sniff(i, to.unread[start:])
	}
	if p.tamper != nil {
		p.tamper(1-i, to.unread[start:])
	}
	n.s.Sent(p.now, take, 0)
	return take > 0
}

// read delivers bytes in flight to a node.
func (p *pair) read(i int) bool {
	n := p.n[i]
	if n.s.Stalled() {
		if p.late != nil {
			p.late(i)
		}
		p.now = max(p.now, n.s.Deadline())
		n.s.Expire(p.now)
		return true
	}
	if len(n.unread) == 0 {
		if p.n[1-i].shut >= ShutWrite && !n.closed {
			n.closed = true
			n.s.Closed(p.now, p.n[1-i].shut == ShutAbort)
			return true
		}
		return false
	}
	take := min(len(n.unread), 1+p.rnd.IntN(p.maxPiece))
	room := n.s.Room(p.now, p.scratch[:])
	got := 0
	for _, b := range room {
		k := copy(b, n.unread[:take-got])
		n.unread = n.unread[k:]
		if got += k; got == take {
			break
		}
	}
	n.s.Filled(p.now, got)
	// Nothing may be kept in the scratch.
	for k := range min(got+64, len(p.scratch)) {
		p.scratch[k] = 0xee
	}
	return true
}

// run moves bytes until none are left.
func (p *pair) run() {
	for moved := true; moved; {
		moved = false
		for i, n := range p.n {
			if n.shut < ShutWrite || n.s.Shut() < ShutClose && n.shut < ShutClose {
				moved = p.write(i) || moved
			}
			n.shut = max(n.shut, n.s.Shut())
			if n.shut < ShutClose {
				moved = p.read(i) || moved
			}
			n.shut = max(n.shut, n.s.Shut())
		}
	}
}

// brief formats completions.
func brief(list []queue.CQE) (s string) {
	for _, c := range list {
		s += fmt.Sprintf("%d:%v ", c.WRID, c.Status)
	}
	return s
}
