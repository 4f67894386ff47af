package rc

import (
	"testing"
	"time"

	"softrdma/internal/congestion"
	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/psn"
	"softrdma/internal/queue"
	"softrdma/internal/rc/conn"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/ib/own"
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

// What is lost of a READ does not count as awaited, so that others are asked for meanwhile, but not more than 32 bits count:
// here the READ waits behind a WRITE that is to be sent again first, but finds no room.
func TestREADsInFlightBringLessThanFourGigabytes(t *testing.T) {
	const length, mtu = machine.MaxMessage, 4096
	w := newSelective(t, func(_ int, p *machine.Port) { p.Attr.PathMTU = mtu })
	a, b := w.n[0], w.n[1]
	r := &a.q.req
	void, err := a.port.Memory.RegisterVoid(7, length, 0, allAccess)
	if err != nil {
		t.Fatal(err)
	}
	next := func(op queue.Op, list memory.SGE) (first uint32) {
		t.Helper()
		first = r.nxt
		a.post(wqe{op: op, list: []memory.SGE{list}, remote: b.target(0)})
		if out := (machine.Out{}); !a.q.Next(w.now, &out) || r.nxt == first {
			t.Fatalf("%v at %d: nothing new was sent", op, first)
		}
		return first
	}
	long := memory.SGE{Length: length, LKey: void.Key}
	a.post(wqe{op: queue.Read, list: []memory.SGE{a.sge(0, 8)}, remote: b.target(0)})
	w.settle() // each end knows the other
	waits := next(queue.Read, a.sge(0, 8))
	write := next(queue.Write, a.sge(0, mtu))
	next(queue.Read, long)
	behind := next(queue.Write, a.sge(0, mtu))
	for range 20 {
		next(queue.Write, a.sge(0, mtu))
	}
	w.now += 10 * time.Millisecond
	held := own.WideAck{Span: conn.MaxSpan}
	w.inject(0, ib.Packet{
		BTH:  ib.BTH{Opcode: ib.RCSelectiveAck, PSN: psn.New(waits), Wide: true},
		AETH: ib.AETH{Syndrome: ib.ACKNoCredits}, Payload: own.AppendLongRange(held.Append(nil), behind-write, 1),
	})
	w.expire(0) // the WRITE and the READ behind it are lost
	if n := r.inbound(); n > length/1024 {
		t.Fatalf("%d bytes are awaited, although they are lost", n)
	}
	a.q.ctl = congestion.New(congestion.None, congestion.Limits{Window: mtu})
	due := r.reads.due
	a.post(wqe{op: queue.Read, list: []memory.SGE{long}, remote: b.target(0)})
	a.q.Next(w.now, &machine.Out{})
	if r.reads.due != due {
		t.Errorf("%d bytes are due, %d before another READ of %d", r.reads.due, due, length)
	}
}
