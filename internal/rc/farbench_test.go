package rc

import (
	"fmt"
	"testing"

	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/queue"
	"softrdma/internal/rc/conn"
	"softrdma/internal/wire/ib"
)

// BenchmarkFarReadsBehindALoss measures what an answer to a READ costs while the first answer is missing. It must not depend
// on how many READs are outstanding.
func BenchmarkFarReadsBehindALoss(b *testing.B) {
	for _, n := range []int{60, 250, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			answers := 0
			b.StopTimer()
			for answers < b.N {
				w := newFarRing(b, 4, 1023)
				w.keep = false
				a := w.n[0]
				a.q.req.reads.ctl = &pacing{Control: a.q.req.reads.ctl, left: 1 << 30}
				a.q.req.reads.keeps(w.now, conn.MaxKept)
				w.n[1].q.resp.Widen(w.now, &machine.In{})
				lost := false
				w.fate = func(_, _ int, p *ib.Packet) (int, int) {
					if p.Opcode == ib.RCReadResponseOnly && !lost {
						lost = true
						return 0, 0
					}
					return 1, 0
				}
				for i := range n {
					a.post(wqe{op: queue.Read, list: []memory.SGE{a.sge(64*i, 64)}, remote: w.n[1].target(0)})
				}
				w.take(0, 1<<20)
				w.deliver(1, 1<<20)
				w.take(1, 1<<20)
				m := len(w.wire[0])
				if m < n-1 {
					b.Fatalf("%d answers of %d", m, n)
				}
				b.StartTimer()
				w.deliver(0, 1<<20)
				b.StopTimer()
				answers += m
				if len(a.send.list) > 1 || a.q.req.recovery.loss.board == nil {
					b.Fatal("nothing is missing")
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(answers), "ns/answer")
		})
	}
}
