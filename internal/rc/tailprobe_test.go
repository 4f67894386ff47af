package rc

import (
	"testing"
	"time"

	"softrdma/internal/memory"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
)

// A peer that sleeps between messages answers every eighth of them late.
func TestTailProbesBecomeRareWhenAnswersAreLate(t *testing.T) {
	w := newSelective(t, nil)
	a, b := w.n[0], w.n[1]
	const rounds = 400
	for i := range rounds {
		a.post(wqe{op: queue.Write, list: []memory.SGE{a.sge(0, 8)}, remote: b.target(0)})
		w.take(0, 1)
		w.deliver(1, 1)
		answered := w.now + 20*time.Microsecond
		if i%8 == 7 {
			answered = w.now + 1500*time.Microsecond
		}
		for a.q.Deadline() < answered {
			w.now = a.q.Deadline()
			a.q.Expire(w.now)
			w.take(0, 1)
		}
		w.now = answered
		w.quiet()
	}
	if n := len(a.send.list); n != rounds {
		t.Fatalf("%d completions of %d", n, rounds)
	}
	probes := a.count(reason.TailProbe)
	if probes == 0 || probes > rounds/8/3 {
		t.Errorf("%d probes for %d late answers", probes, rounds/8)
	}
}
