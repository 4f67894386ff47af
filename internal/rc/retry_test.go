package rc

import (
	"testing"
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

func TestRetryTimeoutsExhaustRetryCount(t *testing.T) {
	w := newPair(t, func(_ int, p *machine.Port) { p.Attr.RetryCnt = 3 })
	a := w.n[0]
	w.fate = dropAll
	w.postWrites(1)
	start := w.now
	w.settle()
	w.wantStatuses(&a.send, queue.RetryExcErr)
	if n := len(w.sent[1]); n != 4 {
		t.Errorf("sent %d times, want 4", n)
	}
	if c := a.send.list[0]; c.Reason != reason.NeverAnswered || c.Expected != 3 || c.Found != 4 {
		t.Errorf("completion %+v", c)
	}
	// The configured timeout, then twice and four times that.
	if d, want := w.now-start, (1+2+4+4)*a.port.Attr.AckTimeout(); d < want || d > want+100*time.Microsecond {
		t.Errorf("failed after %v, want %v", d, want)
	}
}

func TestRetryWithoutTimeoutNeverEnds(t *testing.T) {
	w := newPair(t, func(_ int, p *machine.Port) { p.Attr.Timeout = 0 })
	w.fate = dropAll
	w.postWrites(1)
	w.settle()
	if len(w.n[0].send.list) != 0 || w.n[0].q.Deadline() != machine.Never {
		t.Errorf("completed %+v, deadline %v", w.n[0].send.list, w.n[0].q.Deadline())
	}
}

func TestRetryLostAckRepeatsRequestOnce(t *testing.T) {
	w := newPair(t, nil)
	a, b := w.n[0], w.n[1]
	add := b.word(0)
	add.CompareAdd = 1
	w.fate = drop(0, 0, 1)
	b.postRecv(1, b.sge(100, 8))
	a.post(wqe{op: queue.Send, list: []memory.SGE{a.sge(0, 8)}})
	a.post(wqe{op: queue.FetchAdd, list: []memory.SGE{a.sge(8, 8)}, atomic: add})
	w.settle()
	w.wantStatuses(&a.send, 0, 0)
	w.wantStatuses(&b.recv, 0)
	if got := *b.mr.Word(b.mr.Base); got != 1 {
		t.Errorf("added %d times", got)
	}
}

func TestRetryNotReadyWaitsTheRequestedTime(t *testing.T) {
	w := newPair(t, func(_ int, p *machine.Port) { p.Attr.MinRNRTimer = 14 })
	a, b := w.n[0], w.n[1]
	wait := ib.RNRTimer(14)
	a.post(wqe{op: queue.Send, list: []memory.SGE{a.sge(0, 8)}})
	a.post(wqe{op: queue.Send, list: []memory.SGE{a.sge(0, 8)}})
	w.quiet()
	if d := a.q.Deadline() - w.now; d > wait || d < wait-20*time.Microsecond {
		t.Fatalf("waits %v, want %v", d, wait)
	}
	if n := w.take(0, 10); n != 0 {
		t.Fatalf("%d packets sent while waiting", n)
	}
	b.postRecv(1, b.sge(0, 8))
	b.postRecv(2, b.sge(0, 8))
	w.settle()
	w.wantStatuses(&a.send, 0, 0)
	w.wantStatuses(&b.recv, 0, 0)
	if a.count(reason.NAKNotReady) != 1 || b.count(reason.NoReceive) != 1 || a.count(reason.AckTimeout) != 0 {
		t.Errorf("refused %v, %v", a.refused, b.refused)
	}
}

func TestRetryNotReadyExhaustsRNRRetry(t *testing.T) {
	w := newPair(t, func(_ int, p *machine.Port) { p.Attr.RNRRetry = 2 })
	a, b := w.n[0], w.n[1]
	a.post(wqe{op: queue.Send, list: []memory.SGE{a.sge(0, 8)}})
	w.settle()
	w.wantStatuses(&a.send, queue.RNRRetryExcErr)
	if c := a.send.list[0]; c.Reason != reason.RNRRetryExceeded || b.count(reason.NoReceive) != 3 {
		t.Errorf("%+v; refused %v", c, b.refused)
	}
}

func TestRetryNotReadySevenIsUnlimited(t *testing.T) {
	w := newPair(t, func(_ int, p *machine.Port) { p.Attr.RetryCnt = 0 })
	a, b := w.n[0], w.n[1]
	a.post(wqe{op: queue.Send, list: []memory.SGE{a.sge(0, 8)}})
	for b.count(reason.NoReceive) < 50 {
		w.quiet()
		w.now = a.q.Deadline()
		a.q.Expire(w.now)
	}
	b.postRecv(1, b.sge(0, 8))
	w.settle()
	w.wantStatuses(&a.send, 0)
}

// A peer that is not ready still answers. Losing some of its answers must not exhaust the retry
// count.
func TestRetryNotReadyResetsRetryCount(t *testing.T) {
	w := newPair(t, func(_ int, p *machine.Port) { p.Attr.RetryCnt = 2 })
	a, b := w.n[0], w.n[1]
	w.fate = func(to, i int, _ *ib.Packet) (copies, late int) {
		if to == 0 && i%2 == 1 {
			return 0, 0
		}
		return 1, 0
	}
	a.post(wqe{op: queue.Send, list: []memory.SGE{a.sge(0, 8)}})
	for b.count(reason.NoReceive) < 20 && len(a.send.list) == 0 {
		w.quiet()
		w.now = a.q.Deadline()
		a.q.Expire(w.now)
	}
	b.postRecv(1, b.sge(0, 8))
	w.settle()
	w.wantStatuses(&a.send, 0)
	if n := a.count(reason.AckTimeout); n < 5 {
		t.Errorf("%d timeouts: the answers were not lost", n)
	}
}

func TestRetryCopyOfNotReadyCountsOnce(t *testing.T) {
	w := newPair(t, func(_ int, p *machine.Port) { p.Attr.RNRRetry = 1 })
	a := w.n[0]
	a.post(wqe{op: queue.Send, list: []memory.SGE{a.sge(0, 8)}})
	w.take(0, 1)
	for range 3 {
		w.inject(0, ackPacket(ib.RNRNAK|5, testPSN0))
	}
	if a.port.Attr.State != qp.RTS || a.count(reason.NAKNotReady) != 1 {
		t.Errorf("state %v, refused %v", a.port.Attr.State, a.refused)
	}
}

// The response to a READ arrives when the READ is about to be repeated and a local operation waits
// behind it.
func TestRetryAnswerBeforeRepetitionKeepsLocalOperation(t *testing.T) {
	w := newPair(t, nil)
	a, b := w.n[0], w.n[1]
	key, _ := a.port.Memory.AllocWindow(7, memory.MW2)
	a.post(wqe{op: queue.Read, list: []memory.SGE{a.sge(0, 8)}, remote: b.target(0)})
	a.post(wqe{op: queue.BindMW, flags: queue.Fence, mw: queue.MW{
		Addr: a.mr.Base, Length: 64, MRLKey: a.mr.Key, MWRKey: key, RKey: key ^ 1,
	}})
	w.postWrites(1)
	w.take(0, 100)
	w.now = a.q.Deadline()
	a.q.Expire(w.now)
	w.deliver(1, 1)
	w.take(1, 1)
	w.deliver(0, 1)
	w.wantStatuses(&a.send, 0)
	w.settle()
	w.wantStatuses(&a.send, 0, 0, 0)
	if a.port.Memory.Lookup(key^1) == nil {
		t.Error("not bound")
	}
}

// An answer may come after the timeout, shortly after the packet was sent again. It is of the first
// transmission, so it says nothing of the round trip, and the timeout stays doubled until one is measured.
func TestRetryAnswerAfterTheTimeoutIsNotMeasured(t *testing.T) {
	w := newPair(t, nil)
	a, b := w.n[0], w.n[1]
	timeout := a.port.Attr.AckTimeout()
	trip := timeout * 3 / 2
	for i := range 3 {
		a.post(wqe{op: queue.Write, list: []memory.SGE{a.sge(0, 8)}, remote: b.target(0)})
		w.take(0, 1)
		w.deliver(1, 1)
		answered := w.now + trip
		for a.q.Deadline() < answered {
			w.now = a.q.Deadline()
			a.q.Expire(w.now)
			w.take(0, 1)
		}
		w.now = answered
		w.quiet()
		if n := a.count(reason.AckTimeout); n != 1 {
			t.Errorf("%d timeouts after %d answers, expected one", n, i+1)
		}
		if took := a.q.Measure().RoundTrip; i == 0 && took != 0 || i > 0 && took < trip {
			t.Errorf("measured a round trip of %v after %d answers, each took %v", took, i+1, trip)
		}
	}
}

// Doubling ends at a time, also if the path is what makes the timeout long. The last wait before the end is no shorter than those
// before it.
func TestRetryDoublingIsBounded(t *testing.T) {
	for _, trip := range []time.Duration{0, time.Millisecond, 300 * time.Millisecond} {
		w := newPair(t, nil)
		a := w.n[0]
		r := &a.q.req.recovery
		if trip > 0 {
			r.trips.acks.Sample(0, trip)
		}
		most := 4 * max(r.ackTimeoutOfPath(), longestTimeout/2)
		for range 40 {
			r.retry.retries = 0
			r.doubleTimeout()
			r.armAckTimer(0)
			first := r.retry.ackAt
			r.retry.retries = a.port.Attr.RetryCnt
			r.armAckTimer(0)
			if first > most || r.retry.ackAt < first {
				t.Fatalf("round trip %v: waits %v, expected at most %v, and %v at the end", trip, first, most, r.retry.ackAt)
			}
		}
	}
}

// After an RNR NAK the answer to a repetition is timed. After a timeout behind that it may be of the repetition before.
func TestRetryTimesRepetitionsAfterAnRNRNAKOnce(t *testing.T) {
	w := newPair(t, nil)
	r := &w.n[0].q.req.recovery
	for _, c := range []struct {
		naks, retries uint8
		timed         bool
	}{{1, 0, true}, {1, 1, false}, {0, 0, false}, {0, 1, false}} {
		r.rnr.retries, r.retry.retries, r.trips.timing = c.naks, c.retries, false
		if r.time(0, 0, false, true); r.trips.timing != c.timed {
			t.Errorf("%d RNR NAKs, then %d timeouts: timed: %v", c.naks, c.retries, r.trips.timing)
		}
	}
}
