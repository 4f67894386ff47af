package iwarp

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"

	"softrdma/internal/machine/machinetest"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/wire/iwarp"
)

// The layout of the memory of each end of a modelled pair.
const (
	sourceZone = 0         // source of SENDs and WRITEs; never changes
	targetZone = 256 << 10 // written to by the peer
	readZone   = 512 << 10 // read by the peer; never changes
	sinkZone   = 640 << 10 // target of receives and READs; each byte is used once
	wordZone   = 1008 << 10
	zoneLen    = 128 << 10
)

// A plan is the work of one end with its expected results.
type plan struct {
	ops    []planned
	next   int
	wants  []queue.CQE // signalled completions
	sinks  []sink      // buffers for the results of READs and atomics
	writes []byte      // expected content of the peer's target zone at the end
	words  [4]uint64   // expected values of the peer's words at the end
}

type planned struct {
	op     queue.Op
	flags  queue.Flags
	list   []memory.SGE
	inline []byte
	remote int
	imm    uint32
	arg    [2]uint64
}

type sink struct {
	at   []memory.SGE
	want []byte
}

// A model is a pair with the messages that each end must receive.
type model struct {
	*pair
	rnd   *rand.Rand
	plans [2]plan
	recvs [2][]queue.CQE
	data  [2][][]byte
	lists [2][][]memory.SGE
	used  [2]int // of the sink zone
}

func TestModelSeeds(t *testing.T) {
	seeds := uint64(120)
	if testing.Short() {
		seeds = 30
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { runModel(t, seed) })
	}
}

func runModel(t *testing.T, seed uint64) {
	m := &model{rnd: rand.New(rand.NewPCG(seed, 77))}
	m.pair = newPair(t, func(i int, p *machinetest.Port) { p.SQ = queue.NewSendRing(1+m.rnd.IntN(20), 4, 64) })
	m.pair.rnd = m.rnd
	m.maxPiece = []int{1, 3, 50, 1000, 9000, 300000}[m.rnd.IntN(6)]
	for i, n := range m.n {
		for k := range n.mem {
			n.mem[k] = byte(m.rnd.Uint32())
		}
		m.plans[1-i].writes = bytes.Clone(n.mem[targetZone : targetZone+zoneLen])
		for w := range m.plans[1-i].words {
			m.plans[1-i].words[w] = *word(n, w)
		}
	}
	var params [2]*Params
	ext := m.rnd.IntN(3) != 0
	revision := uint8(1 + m.rnd.IntN(2))
	for i := range params {
		params[i] = &Params{
			NoCRC: m.rnd.IntN(2) == 0, Markers: m.rnd.IntN(4) == 0, Revision: revision,
			IRD: uint16(1 + m.rnd.IntN(5)), ORD: uint16(1 + m.rnd.IntN(5)), MaxFPDU: []int{0, 128, 1452, 9000, 100 + m.rnd.IntN(3000)}[m.rnd.IntN(5)],
			RTR: iwarp.RTR(m.rnd.IntN(8)), ClientServer: m.rnd.IntN(3) == 0,
		}
		if !ext {
			params[i].Extensions = ExtensionsOff
		}
	}
	params[1].RTR = 0
	if revision == 1 { // both ends know the depths in advance
		params[1].IRD, params[1].ORD = params[0].ORD, params[0].IRD
	}
	m.connect(params[0], params[1])
	ext = m.n[0].q.a.Extensions
	if m.n[1].q.a.Extensions != ext {
		t.Fatal("the ends differ on the extensions")
	}
	for i := range m.plans {
		m.plan(i, 4+m.rnd.IntN(30), ext)
	}
	for i, n := range m.n {
		for k, l := range m.lists[i] {
			n.PostRecv(uint64(k), l...)
		}
	}
	for range 10000 {
		m.post(0)
		m.post(1)
		m.run()
		if m.plans[0].next == len(m.plans[0].ops) && m.plans[1].next == len(m.plans[1].ops) {
			break
		}
	}
	m.check(t)
}

func word(n *node, i int) *uint64 { return (*uint64)(unsafe.Pointer(&n.mem[wordZone+8*i])) }

func (m *model) length() int {
	switch m.rnd.IntN(6) {
	case 0:
		return 0
	case 1:
		return m.rnd.IntN(20000)
	case 2:
		return 1000 + m.rnd.IntN(600)
	}
	return m.rnd.IntN(300)
}

// split makes a list of entries for n bytes of a zone at off.
func (m *model) split(n *node, off, length int) (list []memory.SGE) {
	for range m.rnd.IntN(3) {
		k := m.rnd.IntN(length + 1)
		list = append(list, n.sge(off, k))
		off += k
		length -= k
	}
	return append(list, n.sge(off, length))
}

// sinkRoom allocates n bytes of an end's sink zone. It returns -1 if the zone is full.
func (m *model) sinkRoom(i, n int) int {
	if m.used[i]+n > wordZone-sinkZone {
		return -1
	}
	m.used[i] += n
	return sinkZone + m.used[i] - n
}

func (m *model) plan(i, count int, ext bool) {
	a, b := m.n[i], m.n[1-i]
	p := &m.plans[i]
	ops := []queue.Op{queue.Send, queue.Send, queue.Write, queue.Read}
	if ext {
		ops = append(ops, queue.WriteImm, queue.CompareSwap, queue.FetchAdd)
	}
	for range count {
		k := len(p.ops)
		o := planned{op: ops[m.rnd.IntN(len(ops))], imm: m.rnd.Uint32()}
		n := m.length()
		for f := range 3 {
			if m.rnd.IntN(2) == 0 {
				o.flags |= 1 << f // fence, signaled, solicited
			}
		}
		if i == 0 && k == 0 {
			o.op = queue.Write // one end sends first
		}
		c := queue.CQE{WRID: uint64(k), ByteLen: uint32(n)}
		from := sourceZone + m.rnd.IntN(zoneLen-n)
		switch o.op {
		case queue.Send:
			if !m.expect(1-i, o, n, a.mem[from:from+n]) {
				continue
			}
			m.fill(&o, a, from, n)
		case queue.Write, queue.WriteImm:
			if o.op == queue.WriteImm && !m.expect(1-i, o, n, nil) {
				continue
			}
			o.remote = targetZone + m.rnd.IntN(zoneLen-n)
			copy(p.writes[o.remote-targetZone:], a.mem[from:from+n])
			m.fill(&o, a, from, n)
		case queue.Read:
			at := m.sinkRoom(i, n)
			if at < 0 {
				continue
			}
			o.remote = readZone + m.rnd.IntN(zoneLen-n)
			o.list = m.split(a, at, n)
			p.sinks = append(p.sinks, sink{o.list, b.mem[o.remote : o.remote+n]})
		default:
			at := m.sinkRoom(i, 8)
			w := m.rnd.IntN(len(p.words))
			c.ByteLen = 8
			o.remote, o.list = wordZone+8*w, m.split(a, at, 8)
			old := p.words[w]
			s := make([]byte, 8)
			*(*uint64)(unsafe.Pointer(&s[0])) = old
			p.sinks = append(p.sinks, sink{o.list, s})
			o.arg = [2]uint64{m.rnd.Uint64(), m.rnd.Uint64()}
			if o.op == queue.FetchAdd {
				p.words[w] += o.arg[0]
			} else if m.rnd.IntN(2) == 0 {
				o.arg[0] = old
				p.words[w] = o.arg[1]
			}
		}
		c.Op = o.op.Completed()
		if o.flags&queue.Signaled != 0 {
			p.wants = append(p.wants, c)
		}
		o.list = append([]memory.SGE(nil), o.list...)
		p.ops = append(p.ops, o)
	}
}

// fill sets the source of a request's data.
func (m *model) fill(o *planned, a *node, from, n int) {
	if n <= 64 && m.rnd.IntN(2) == 0 {
		o.inline = a.mem[from : from+n]
		return
	}
	o.list = m.split(a, from, n)
}

// expect records a receive for a message of n bytes.
func (m *model) expect(i int, o planned, n int, data []byte) bool {
	room := n
	if m.rnd.IntN(2) == 0 {
		room += m.rnd.IntN(50)
	}
	if data == nil {
		room = 0
	}
	at := m.sinkRoom(i, room)
	if at < 0 {
		return false
	}
	c := queue.CQE{WRID: uint64(len(m.recvs[i])), Op: queue.WCRecv, ByteLen: uint32(n)}
	if o.op == queue.WriteImm {
		c.Op, c.Flags, c.ImmInv = queue.WCRecvRDMAImm, queue.WCImm, o.imm
	}
	if o.flags&queue.Solicited != 0 {
		c.Solicited = 1
	}
	m.recvs[i] = append(m.recvs[i], c)
	m.data[i] = append(m.data[i], data)
	m.lists[i] = append(m.lists[i], m.split(m.n[i], at, room))
	return true
}

// post posts as much of an end's plan as fits into its ring.
func (m *model) post(i int) {
	n, p := m.n[i], &m.plans[i]
	for ; p.next < len(p.ops) && !n.SQ.Full(); p.next++ {
		o := p.ops[p.next]
		fill := func(w *queue.SendWQE) {
			w.WRID, w.Op, w.Flags, w.ImmInv = uint64(p.next), o.op, o.flags|w.Flags&queue.Inline, o.imm
			to := m.n[1-i].target(o.remote)
			if o.op == queue.CompareSwap || o.op == queue.FetchAdd {
				*w.Atomic() = queue.Atomic{Addr: to.Addr, RKey: to.RKey, CompareAdd: o.arg[0], Swap: o.arg[1]}
			} else {
				*w.RDMA() = to
			}
		}
		if o.inline != nil {
			n.PostInline(o.inline, fill)
		} else {
			n.PostSend(fill, o.list...)
		}
	}
}

func gather(n *node, list []memory.SGE) (b []byte) {
	for _, e := range list {
		off := e.Addr - n.region.Base
		b = append(b, n.mem[off:off+uint64(e.Length)]...)
	}
	return b
}

func (m *model) check(t *testing.T) {
	t.Helper()
	for i, n := range m.n {
		p := &m.plans[i]
		if len(n.Refused) > 0 || n.Attr.State != qp.RTS {
			t.Fatalf("node %d in %v refused %v, heard %+v", i, n.Attr.State, n.Refused, n.events)
		}
		if p.next != len(p.ops) || n.SQ.Len() != 0 {
			t.Fatalf("node %d: %d of %d posted, %d outstanding", i, p.next, len(p.ops), n.SQ.Len())
		}
		same(t, fmt.Sprintf("node %d sent", i), n.Sent.List, p.wants)
		same(t, fmt.Sprintf("node %d received", i), n.Received.List, m.recvs[i])
		for k, want := range m.data[i] {
			if got := gather(n, m.lists[i][k]); !bytes.HasPrefix(got, want) {
				t.Fatalf("node %d: message %d of %d bytes differs", i, k, len(want))
			}
		}
		for k, s := range p.sinks {
			if got := gather(n, s.at); !bytes.Equal(got, s.want) {
				t.Fatalf("node %d: answer %d of %d bytes differs", i, k, len(s.want))
			}
		}
		to := m.n[1-i]
		if !bytes.Equal(to.mem[targetZone:targetZone+zoneLen], p.writes) {
			t.Fatalf("node %d: what it wrote differs", i)
		}
		for w, want := range p.words {
			if got := *word(to, w); got != want {
				t.Fatalf("node %d: word %d is %#x, expected %#x", i, w, got, want)
			}
		}
	}
}

// same compares completions except for the queue pair and the port.
func same(t *testing.T, what string, got, want []queue.CQE) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d completions, expected %d", what, len(got), len(want))
	}
	for i := range got {
		g := got[i]
		g.QPN, g.PortNum = 0, 0
		if g != want[i] {
			t.Fatalf("%s: completion %d is %+v, expected %+v", what, i, g, want[i])
		}
	}
}
