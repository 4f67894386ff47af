package rc

import (
	"testing"

	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/queue"
)

// Through memory the next READs are asked for while the peer answers, as no buffer has to hold
// what they bring.
func TestMoreReadsInFlightThroughMemory(t *testing.T) {
	const window = 4096
	for _, c := range []struct {
		whole bool
		want  int
	}{{false, 1}, {true, wholeWindows}} {
		w := newPairWith(t, [2]Config{}, func(_ int, p *machine.Port) { p.Window, p.Attr.MaxRdAtomic = window, 16 })
		a := w.n[0]
		for range 16 {
			a.post(wqe{op: queue.Read, list: []memory.SGE{a.sge(0, window/2)}, remote: w.n[1].target(0)})
			a.post(wqe{op: queue.Read, list: []memory.SGE{a.sge(0, window/4)}, remote: w.n[1].target(0)})
		}
		asked := 0
		for out := (machine.Out{Whole: c.whole}); a.q.Next(w.now, &out); asked++ {
		}
		if due := int(a.q.req.reads.due); due > c.want*window || due <= (c.want-1)*window {
			t.Errorf("whole %v: %d READs of %d bytes in flight, expected up to %d windows of %d", c.whole, asked, due, c.want, window)
		}
	}
}
