package rc

import (
	"testing"
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/queue"
)

// The congestion window keeps packets from being lost for want of room, and so holds only
// where they can be.
func TestCongestionWindowIsForPathsThatLose(t *testing.T) {
	const window, messages = 4 * (testMTU + overhead), 32
	for _, c := range []struct {
		lossless bool
		packets  int
	}{{false, 4}, {true, messages}} {
		w := newPairWith(t, [2]Config{}, func(_ int, p *machine.Port) { p.Window = window })
		a := w.n[0]
		for range messages {
			a.post(wqe{op: queue.Write, list: []memory.SGE{a.sge(0, testMTU)}, remote: w.n[1].target(0)})
		}
		sent := 0
		for out := (machine.Out{Lossless: c.lossless}); a.q.Next(w.now, &out); sent++ {
		}
		if sent != c.packets {
			t.Errorf("lossless %v: %d packets in flight, expected %d", c.lossless, sent, c.packets)
		}
	}
}

func TestLeftoverDecreasesWithinARoundTrip(t *testing.T) {
	for _, c := range []struct {
		passed time.Duration
		left   int64
	}{{0, 1000}, {250 * time.Microsecond, 750}, {999 * time.Microsecond, 1}, {time.Millisecond, 0}, {time.Second, 0}} {
		s := leftover{bytes: 1000, at: time.Second, trip: time.Millisecond}
		if got := s.left(time.Second + c.passed); got != c.left {
			t.Errorf("%d left after %v, expected %d", got, c.passed, c.left)
		}
	}
}

// Through memory, round trips become long when the peer gets no processor. The path is not longer: nothing is paced,
// and credits stay in force.
func TestBusyPeerThroughMemoryIsNoLongPath(t *testing.T) {
	w := newSelective(t, nil)
	w.lossless, w.keep = true, false
	a, b := w.n[0], w.n[1]
	type late struct {
		p  packet
		at time.Duration
	}
	var answers []late
	const step = 20 * time.Microsecond
	busy := step
	for i := range 10000 {
		if i == 1000 {
			busy = 5 * time.Millisecond
		}
		for !a.port.SQ.Full() {
			a.post(wqe{op: queue.Write, list: []memory.SGE{a.sge(0, 200)}, remote: b.target(0)})
		}
		a.send.list = a.send.list[:0]
		if a.q.Deadline() <= w.now {
			a.q.Expire(w.now)
		}
		w.take(0, 1<<20)
		w.deliver(1, 1<<20)
		w.take(1, 1<<20)
		for _, p := range w.wire[0] {
			answers = append(answers, late{p, w.now + busy})
		}
		w.wire[0] = w.wire[0][:0]
		for len(answers) > 0 && answers[0].at <= w.now {
			w.give(0, answers[0].p)
			answers = answers[1:]
		}
		w.now += step
		if a.q.ctl.Paces() {
			t.Fatalf("paced at %v, smallest round trip %v", w.now, a.q.req.recovery.trips.acks.Least())
		}
	}
	if least := a.q.req.recovery.trips.acks.Least(); least > creditPath {
		t.Errorf("smallest round trip %v", least)
	}
}
