package verbs_test

import (
	"fmt"
	"runtime"
	"testing"

	"softrdma/internal/host"
	"softrdma/verbs"
)

// scaleFlight is the number of bytes in flight over all queue pairs.
const scaleFlight = 8 << 20

// BenchmarkQueuePairs writes over n connected queue pairs in turn, and reports the cost of an
// unused one. One goroutine polls both ends, so processor time measures the work even on a
// machine with other load.
func BenchmarkQueuePairs(b *testing.B) {
	for _, bytes := range []int{1 << 20, 64 << 10, 4 << 10} {
		for _, n := range []int{1, 1000, 100_000} {
			b.Run(fmt.Sprintf("%dKiB/%d", bytes>>10, n), func(b *testing.B) { benchQueuePairs(b, bytes, n) })
		}
	}
}

func benchQueuePairs(b *testing.B, bytes, n int) {
	// One queue pair has as many messages in flight as all others together.
	flight := min(scaleFlight/bytes, 1024)
	e := ends{size: 1 << 20, qp: verbs.QPConfig{Type: verbs.RC, MaxSendSGE: 1, MaxSend: max(1, flight/n), MaxRecv: 1, MaxRecvSGE: 1}}
	x, y := e.side(b, benchAddr()), e.side(b, benchAddr())
	x.peer = y
	var all [2][]*verbs.QP
	before := heap()
	for range n {
		for i, s := range []*side{x, y} {
			e.qp.SendCQ = s.cq
			q, err := s.pd.CreateQP(e.qp)
			if err != nil {
				b.Fatal(err)
			}
			all[i] = append(all[i], q)
		}
		k := len(all[0]) - 1
		c, d := *x, *y
		c.qp, d.qp = all[0][k], all[1][k]
		e.join(b, &c, &d)
	}
	idle := float64(heap()-before) / float64(2*n)
	wr := []verbs.SendWR{x.write(0, bytes)}
	wcs := make([]verbs.WC, 64)
	room := make([]int, n) // free slots of each send queue
	for i := range room {
		room[i] = max(1, flight/n)
	}
	under, done, next := 0, 0, 0
	turn := func(count int) {
		for posted := 0; done < count; {
			for posted < count && under < flight && room[next] > 0 {
				wr[0].WRID = uint64(next)
				if err := all[0][next].PostSend(wr...); err != nil {
					b.Fatal(err)
				}
				room[next]--
				under++
				posted++
				next = (next + 1) % n
			}
			if _, err := y.cq.Poll(wcs); err != nil {
				b.Fatal(err)
			}
			k, err := x.cq.Poll(wcs)
			if err != nil {
				b.Fatal(err)
			}
			for i := range wcs[:k] {
				if wcs[i].Status != verbs.Success {
					b.Fatal(wcs[i].Err())
				}
				room[wcs[i].WRID]++
			}
			under, done = under-k, done+k
		}
		done = 0
	}
	wr[0].SGL[0].Length = 64
	turn(2 * n) // so that each has been used
	wr[0].SGL[0].Length = uint32(bytes)
	b.SetBytes(int64(bytes))
	b.ResetTimer()
	cpu := host.CPUTime()
	turn(b.N)
	b.ReportMetric(float64((host.CPUTime()-cpu).Nanoseconds())/float64(b.N), "cpu-ns/op")
	b.StopTimer()
	b.ReportMetric(idle, "B/idleQP")
	b.ReportMetric(float64(heap()-before)/float64(2*n), "B/usedQP")
	runtime.KeepAlive(all)
}

// heap returns the bytes of live heap memory.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
