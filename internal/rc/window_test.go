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
