package rc

import (
	"testing"

	"softrdma/internal/congestion"
	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/queue"
)

// On a network the receive window bounds what READs in flight bring. Through memory no buffer has
// to hold it, so that more are asked for while the peer answers.
func TestMoreReadsInFlightThroughMemory(t *testing.T) {
	const window, length = 4096, 1024
	for _, c := range []struct {
		whole bool
		most  uint32
	}{{false, window}, {true, wholeReads}} {
		w := newPairWith(t, [2]Config{}, func(_ int, p *machine.Port) { p.Window, p.Attr.MaxRdAtomic = window, 16 })
		a := w.n[0]
		for range 16 {
			a.post(wqe{op: queue.Read, list: []memory.SGE{a.sge(0, length)}, remote: w.n[1].target(0)})
		}
		brings := length + overhead*length/a.q.req.mtu
		a.q.req.reads.due = c.most - 2*brings // as if others were in flight
		asked := 0
		for out := (machine.Out{Whole: c.whole}); a.q.Next(w.now, &out); asked++ {
		}
		if asked != 2 {
			t.Errorf("whole %v: %d READs of %d bytes, expected 2 up to %d bytes in flight", c.whole, asked, length, c.most)
		}
	}
}

// Before the first answer nothing is known of the path, so READs bring little. On a short path the
// whole window may be used after it.
func TestFirstReadsAreFew(t *testing.T) {
	const window, length = 1 << 20, 1024
	w := newSelective(t, func(_ int, p *machine.Port) { p.Window, p.Attr.MaxRdAtomic = window, 16 })
	a := w.n[0]
	reads := &a.q.req.reads
	brings := length + overhead*length/a.q.req.mtu
	ask := func(due uint32) (asked int) {
		for range 8 {
			a.post(wqe{op: queue.Read, list: []memory.SGE{a.sge(0, length)}, remote: w.n[1].target(0)})
		}
		was := reads.due
		reads.due += due
		for out := (machine.Out{}); a.q.Next(w.now, &out); asked++ {
		}
		reads.due = was
		return asked
	}
	if asked := ask(firstReads - 2*brings); asked != 2 {
		t.Errorf("%d READs of %d bytes, expected 2 up to %d bytes in flight", asked, length, firstReads)
	}
	w = newSelective(t, func(_ int, p *machine.Port) { p.Window, p.Attr.MaxRdAtomic = window, 16 })
	a = w.n[0]
	reads = &a.q.req.reads
	a.post(wqe{op: queue.Read, list: []memory.SGE{a.sge(0, length)}, remote: w.n[1].target(0)})
	w.settle()
	if asked := ask(window - 2*brings); asked != 2 {
		t.Errorf("after an answer: %d READs, expected 2 up to %d bytes in flight", asked, window)
	}
	w = newSelective(t, func(_ int, p *machine.Port) { p.Window, p.Attr.MaxRdAtomic = window, 16 })
	a = w.n[0]
	a.q.kind = congestion.Window
	reads = &a.q.req.reads
	if asked := ask(window - 2*brings); asked != 2 {
		t.Errorf("without a model of the path: %d READs, expected 2 up to %d bytes in flight", asked, window)
	}
}
