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
	const rounds = 400
	probes := w.answerLate(t, rounds, 1500*time.Microsecond)
	if probes == 0 || probes > rounds/8/3 {
		t.Errorf("%d probes for %d late answers", probes, rounds/8)
	}
}

// Where nothing can be lost, a late answer is only late.
func TestNoTailProbeIsSentForLateAnswersWhereNothingIsLost(t *testing.T) {
	w := newSelective(t, nil)
	w.lossless = true
	const late = 15 * time.Millisecond
	if probes := w.answerLate(t, 100, late); probes != 0 {
		t.Errorf("%d probes for answers that came within %v", probes, late)
	}
}

// answerLate plays rounds WRITEs, of which every eighth gets its answer after late, and returns the
// number of probes.
func (w *pair) answerLate(t *testing.T, rounds int, late time.Duration) int {
	t.Helper()
	a, b := w.n[0], w.n[1]
	for i := range rounds {
		a.post(wqe{op: queue.Write, list: []memory.SGE{a.sge(0, 8)}, remote: b.target(0)})
		w.take(0, 1)
		w.deliver(1, 1)
		answered := w.now + 20*time.Microsecond
		if i%8 == 7 {
			answered = w.now + late
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
	return a.count(reason.TailProbe)
}

// A probe that ends the measurement of a round trip makes the next ones come later, until one is measured.
func TestTailProbesComeAtTheUsualTimeAfterAMeasurement(t *testing.T) {
	w := newSelective(t, nil)
	a := w.n[0]
	r := &a.q.req.recovery
	wait := func() time.Duration {
		w.postWrites(1)
		w.take(0, 1)
		return r.tail.at - w.now - r.tailProbeTime()
	}
	w.postWrites(1)
	w.quiet()
	if d := wait(); d != 0 {
		t.Fatalf("the first probe comes %v late", d)
	}
	w.now = r.tail.at
	a.q.Expire(w.now)
	w.quiet()
	if d := wait(); d <= 0 {
		t.Errorf("the probe after one that ended a measurement comes %v later, expected some time", d)
	}
	w.quiet()
	if d := wait(); d != 0 {
		t.Errorf("the probe after a measurement comes %v late", d)
	}
}
