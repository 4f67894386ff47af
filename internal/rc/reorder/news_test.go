package reorder

import (
	"math/rand/v2"
	"testing"

	"softrdma/internal/wire/ib/own"
)

// TestReportNewsTellsEverything holds requests in random order, with more gaps than fit into a
// report. A peer that adds up the reports knows all that is held, and nothing else.
func TestReportNewsTellsEverything(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 3))
		pool := NewPool(64 << 20)
		b := pool.Buffer()
		const most = 4000
		known, held := make([]bool, most), make([]bool, most)
		for range 200 {
			for range 1 + r.IntN(20) {
				i := 1 + r.IntN(most-1)
				p := expected.Add(i)
				if at, covered := b.Place(p); !covered {
					b.Insert(at, pool.Copy(request(p), 1))
					held[i] = true
				}
			}
			for more := true; more; {
				var told []byte
				told, more = b.ReportNews(own.WideAck{Span: 7}, expected)
				w, ranges, ok := own.ParseWideAck(told)
				if !ok || w.Span != 7 {
					t.Fatalf("seed %d: %d bytes reported, %+v", seed, len(told), w)
				}
				at := int(w.Begin)
				for i := range len(ranges) / own.RangeLen {
					skip, count := own.RangeOf(ranges, i)
					at += int(skip)
					for range count {
						known[at] = true
						at++
					}
				}
			}
			for i := range held {
				if held[i] != known[i] {
					t.Fatalf("seed %d: request %d: held %v, reported %v", seed, i, held[i], known[i])
				}
			}
		}
	}
}
