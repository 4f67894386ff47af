package drive

import (
	"testing"
	"time"
)

func TestPausesGrowWithThePolling(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct{ polled, pause time.Duration }{
		{0, pollPause}, {8 * ms, 500 * time.Microsecond}, {16*ms - 1, ms - 1}, {16 * ms, ms + pauseSlack},
		{50 * ms, 3*ms + pauseSlack}, {time.Hour, maxPollPause + pauseSlack},
	} {
		if p := pauseAfter(c.polled, pollPause); p != c.pause {
			t.Errorf("after %v: %v, expected %v", c.polled, p, c.pause)
		}
	}
}

func TestBackoffOutlastsABreak(t *testing.T) {
	const ms = time.Millisecond
	b := backoff{over: true}
	for _, step := range []struct {
		at, polled time.Duration // polled is negative without a poller
	}{
		{5 * ms, 0}, {45 * ms, 40 * ms},
		{45 * ms, -1}, {46 * ms, -1}, {47 * ms, 8 * ms}, // 2 ms cost 32
		{57 * ms, 18 * ms}, {57 * ms, -1}, {60 * ms, 0}, // 3 ms cost all
		{1060 * ms, maxBackoff}, {1065 * ms, maxBackoff}, {1065 * ms, -1}, {1067 * ms, maxBackoff - 32*ms},
	} {
		if step.polled < 0 {
			b.end(step.at)
		} else if got := b.poll(step.at); got != step.polled {
			t.Errorf("at %v: polled for %v, expected %v", step.at, got, step.polled)
		}
	}
}

func TestPausesAreBriefWhileTheWorkerReceives(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		after, pause, grace time.Duration
	}{
		{0, memoryGrace, memoryGrace}, {briefFor - 1, memoryGrace, memoryGrace}, {briefFor, pollPause, memoryGrace},
		{memoryTime - 1, pollPause, memoryGrace}, {memoryTime, pollPause, pollGrace},
	} {
		m := memoryWait{5 * ms}
		if p, g := m.pause(5*ms+c.after), m.grace(5*ms+c.after); p != c.pause || g != c.grace || m.brief(5*ms+c.after) != (p == memoryGrace) {
			t.Errorf("%v after an answer was left: pauses of %v and a grace of %v, expected %v and %v", c.after, p, g, c.pause, c.grace)
		}
	}
	if waitsNever.brief(0) || waitsNever.grace(0) != pollGrace {
		t.Error("pauses are brief before any answer was left")
	}
}
