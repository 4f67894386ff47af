package rc

import (
	"testing"
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/rc/conn"
)

// last is a completion queue that counts completions and keeps the last one.
type last struct {
	n   int
	cqe queue.CQE
}

func (c *last) Push(e *queue.CQE) { c.n++; c.cqe = *e }

// pump moves packets between two machines in memory, without a network.
type pump struct {
	n   [2]*node
	cq  [2]last
	now time.Duration
	out machine.Out
	in  machine.In
}

func newPump(tb testing.TB) *pump { return newPumpWith(tb, [2]Config{}) }

func newPumpWith(tb testing.TB, c [2]Config) *pump {
	u := &pump{}
	w := newPairWith(tb, c, func(i int, p *machine.Port) {
		p.SendCQ, p.RecvCQ, p.SQSigAll = &u.cq[i], &u.cq[i], false
		p.SQ = queue.NewSendRing(255, 2, 64)
		p.Attr.PathMTU, p.Window = 4096, 1<<20
	})
	u.n = w.n
	return u
}

// post posts a WRITE of n bytes without touching the heap.
func (u *pump) post(op queue.Op, n int, signalled bool) {
	a, b := u.n[0], u.n[1]
	sq := a.port.SQ
	i := sq.Producer()
	s := sq.At(i)
	*s = queue.SendWQE{WRID: uint64(i), Op: op, NumSGE: 1, Length: uint32(n)}
	if signalled {
		s.Flags = queue.Signaled
	}
	*s.RDMA() = b.target(0)
	if op == queue.FetchAdd {
		*s.Atomic() = b.word(0)
	}
	sq.SGERoom(i)[0] = a.sge(0, n)
	sq.Publish(sq.Next(i))
}

// run moves packets until none are left and returns how many it moved.
func (u *pump) run() (n int) {
	for moved := true; moved; {
		moved = false
		for i := range u.n {
			u.in.Src = testAddrs[i]
			for range 64 {
				if !u.n[i].q.Next(u.now, &u.out) {
					break
				}
				u.in.Packet = u.out.Packet
				u.in.Payload = nil
				if len(u.out.Pieces) > 0 {
					u.in.Payload = u.out.Pieces[0]
				}
				u.n[1-i].q.Receive(u.now, &u.in)
				moved = true
				n++
			}
		}
	}
	return n
}

// finish moves packets and time until all work is done. It returns how many packets it moved.
func (u *pump) finish() (n int) {
	n = u.run()
	for u.n[0].port.SQ.Len() != 0 && u.n[0].port.Attr.State == qp.RTS {
		u.now = min(u.n[0].q.Deadline(), u.n[1].q.Deadline())
		for _, x := range u.n {
			x.q.Expire(u.now)
		}
		n += u.run()
	}
	return n
}

func benchmarkPair(b *testing.B, op queue.Op, size, batch int) {
	u := newPump(b)
	b.SetBytes(int64(size))
	b.ReportAllocs()
	packets := 0
	for i := 0; i < b.N; i += batch {
		for k := range batch {
			u.post(op, size, k == batch-1)
		}
		packets += u.run()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(packets), "ns/packet")
	if u.n[0].port.SQ.Len() != 0 || u.n[0].port.Attr.State != qp.RTS {
		b.Fatal("work left undone")
	}
}

func BenchmarkPairWrite8(b *testing.B)    { benchmarkPair(b, queue.Write, 8, 64) }
func BenchmarkPairWrite4096(b *testing.B) { benchmarkPair(b, queue.Write, 4096, 64) }
func BenchmarkPairWrite64K(b *testing.B)  { benchmarkPair(b, queue.Write, 65536, 16) }
func BenchmarkPairRead4096(b *testing.B)  { benchmarkPair(b, queue.Read, 4096, 64) }

// benchmarkSends sends one SEND at a time and waits for its completion. The peers know selective
// acknowledges and so exchange end-to-end credits. The receiver keeps the given number of receives
// posted.
func benchmarkSends(b *testing.B, posted int) {
	u := newPumpWith(b, [2]Config{{Store: NewStore(DefaultStore)}, {Store: NewStore(DefaultStore)}})
	for range posted {
		u.n[1].postRecv(0, u.n[1].sge(0, 64))
	}
	b.ReportAllocs()
	packets := 0
	for range b.N {
		u.post(queue.Send, 8, true)
		packets += u.finish()
		u.n[1].postRecv(0, u.n[1].sge(0, 64))
	}
	b.ReportMetric(float64(packets)/float64(b.N), "packets/op")
	if u.n[0].port.SQ.Len() != 0 || u.n[0].port.Attr.State != qp.RTS {
		b.Fatal("work left undone")
	}
}

func BenchmarkPairSend8(b *testing.B)           { benchmarkSends(b, 100) }
func BenchmarkPairSend8OneReceive(b *testing.B) { benchmarkSends(b, 1) }

// BenchmarkNextWrite8 measures the requester alone: fetch, segmentation, and completion of 64
// messages by one acknowledge.
func BenchmarkNextWrite8(b *testing.B) {
	u := newPump(b)
	a := u.n[0]
	b.ReportAllocs()
	for i := 0; i < b.N; i += 64 {
		for range 64 {
			u.post(queue.Write, 8, false)
		}
		for a.q.Next(0, &u.out) {
		}
		u.in.Src = testAddrs[1]
		u.in.Packet = ackPacket(0x1f, u.out.PSN)
		a.q.Receive(0, &u.in)
	}
	if a.port.SQ.Len() != 0 {
		b.Fatal("work left undone")
	}
}

// BenchmarkNextWrite4096 measures the requester alone with long messages.
func BenchmarkNextWrite4096(b *testing.B) {
	u := newPump(b)
	a := u.n[0]
	b.ReportAllocs()
	for i := 0; i < b.N; i += 16 {
		u.post(queue.Write, 65536, false)
		for a.q.Next(0, &u.out) {
		}
		u.in.Src = testAddrs[1]
		u.in.Packet = ackPacket(0x1f, u.out.PSN)
		a.q.Receive(0, &u.in)
	}
	if a.port.SQ.Len() != 0 {
		b.Fatal("work left undone")
	}
}

func TestSteadyPathDoesNotAllocate(t *testing.T) {
	for _, op := range []queue.Op{queue.Write, queue.Read, queue.FetchAdd, queue.Send} {
		u := newPump(t)
		work := func() {
			for range 4 {
				n := 9000
				if op == queue.FetchAdd {
					n = conn.AtomicLen
				}
				u.post(op, n, true)
				if op == queue.Send {
					u.n[1].postRecv(0, u.n[1].sge(0, 9000))
				}
			}
			u.run()
		}
		if n := testing.AllocsPerRun(100, work); n != 0 {
			t.Errorf("operation %d: %v allocations", op, n)
		}
		if c := u.cq[0].cqe; u.cq[0].n < 400 || c.Status != queue.Success {
			t.Errorf("operation %d: %d completions, the last %+v", op, u.cq[0].n, c)
		}
	}
}
