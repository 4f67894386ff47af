package iwarp

import (
	"testing"

	"softrdma/internal/machine"
	"softrdma/internal/machine/machinetest"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
)

// count is a completion queue that counts completions and keeps the last one.
type count struct {
	n   int
	cqe queue.CQE
}

func (c *count) Push(e *queue.CQE) { c.n++; c.cqe = *e }

// stock is a receive queue that always returns the same receive.
type stock struct{ recv machine.Receive }

func (s *stock) Take(r *machine.Receive) bool {
	r.WRID, r.Length, r.SGEs = s.recv.WRID, s.recv.Length, append(r.SGEs[:0], s.recv.SGEs...)
	return true
}
func (s *stock) Len() int     { return 1 }
func (s *stock) Shared() bool { return true }

// A pump moves bytes between two ends in memory with the same copies as sockets: one out and one
// in.
type pump struct {
	*pair
	cq   [2]count
	wire []byte
}

func newPump(tb testing.TB, params Params) *pump {
	u := &pump{wire: make([]byte, 0, 1<<20)}
	u.pair = newPair(tb, func(i int, p *machinetest.Port) {
		p.SQ = queue.NewSendRing(255, 2, 64)
	})
	u.connect(&params, &params)
	for i, n := range u.n {
		n.Port.SendCQ, n.Port.RecvCQ = &u.cq[i], &u.cq[i]
		n.Port.RQ = &stock{machine.Receive{Length: 1 << 18, SGEs: []memory.SGE{n.sge(0, 1<<18)}}}
	}
	return u
}

func (u *pump) post(op queue.Op, n int, signalled bool) {
	a, b := u.n[0], u.n[1]
	sq := a.SQ
	i := sq.Producer()
	s := sq.At(i)
	*s = queue.SendWQE{WRID: uint64(i), Op: op, NumSGE: 1, Length: uint32(n)}
	if signalled {
		s.Flags = queue.Signaled
	}
	*s.RDMA() = b.target(0)
	if op == queue.FetchAdd {
		*s.Atomic() = queue.Atomic{Addr: b.region.Base, RKey: b.region.Key, CompareAdd: 1}
	}
	sq.SGERoom(i)[0] = a.sge(1<<19, n)
	sq.Publish(sq.Next(i))
}

func (u *pump) pump() {
	for moved := true; moved; {
		moved = false
		for i, n := range u.n {
			to := u.n[1-i]
			if !n.s.Next(0, &n.out) {
				continue
			}
			moved = true
			u.wire = u.wire[:0]
			for _, p := range n.out.Pieces {
				u.wire = append(u.wire, p...)
			}
			n.s.Sent(0, n.out.Len, 0)
			for b := u.wire; len(b) > 0; {
				k := 0
				for _, p := range to.s.Room(0, u.scratch[:]) {
					k += copy(p, b[k:])
				}
				to.s.Filled(0, k)
				b = b[k:]
			}
		}
	}
}

func benchmarkPair(b *testing.B, op queue.Op, size, batch int, p Params) {
	u := newPump(b, p)
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for i := 0; i < b.N; i += batch {
		for k := range batch {
			u.post(op, size, k == batch-1)
		}
		u.pump()
	}
	if u.n[0].SQ.Len() != 0 || u.n[0].Attr.State != qp.RTS {
		b.Fatal("work left undone")
	}
}

var noCRC = Params{IRD: 16, ORD: 16, NoCRC: true}
var withCRC = Params{IRD: 16, ORD: 16}

func BenchmarkWrite8(b *testing.B)         { benchmarkPair(b, queue.Write, 8, 64, withCRC) }
func BenchmarkSend8(b *testing.B)          { benchmarkPair(b, queue.Send, 8, 64, withCRC) }
func BenchmarkWrite4K(b *testing.B)        { benchmarkPair(b, queue.Write, 4096, 64, withCRC) }
func BenchmarkWrite256K(b *testing.B)      { benchmarkPair(b, queue.Write, 1<<18, 4, withCRC) }
func BenchmarkWrite256KNoCRC(b *testing.B) { benchmarkPair(b, queue.Write, 1<<18, 4, noCRC) }
func BenchmarkRead256K(b *testing.B)       { benchmarkPair(b, queue.Read, 1<<18, 4, withCRC) }
func BenchmarkRead8(b *testing.B)          { benchmarkPair(b, queue.Read, 8, 64, withCRC) }
func BenchmarkWrite256KOfMSS(b *testing.B) {
	benchmarkPair(b, queue.Write, 1<<18, 4, Params{IRD: 16, ORD: 16, MaxFPDU: 1448})
}

func TestSteadyPathDoesNotAllocate(t *testing.T) {
	for _, params := range []Params{withCRC, noCRC, {IRD: 4, ORD: 4, Markers: true}, {IRD: 4, ORD: 4, MaxFPDU: 1448}} {
		for _, op := range []queue.Op{queue.Write, queue.WriteImm, queue.Read, queue.FetchAdd, queue.Send} {
			sizes := []int{8, 9000, 150000}
			if op == queue.FetchAdd {
				sizes = sizes[:1]
			}
			for _, size := range sizes {
				u := newPump(t, params)
				work := func() {
					for range 4 {
						u.post(op, size, true)
					}
					u.pump()
				}
				work()
				if n := testing.AllocsPerRun(20, work); n != 0 {
					t.Errorf("operation %d of %d bytes with %+v: %v allocations", op, size, params, n)
				}
				if c := u.cq[0].cqe; u.cq[0].n < 80 || c.Status != queue.Success {
					t.Errorf("operation %d: %d completions, the last %+v", op, u.cq[0].n, c)
				}
			}
		}
	}
}
