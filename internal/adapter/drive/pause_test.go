package drive

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A countedPauser counts the waits, and how often its timer is set.
type countedPauser struct {
	pauser
	waits, resets atomic.Int32
}

func (p *countedPauser) reset(t time.Duration) {
	p.resets.Add(1)
	p.pauser.reset(t)
}

func (p *countedPauser) wait() {
	p.waits.Add(1)
	p.pauser.wait()
}

// runCounted runs f with a driver whose worker has paused for a poller, and counts its pauses.
func runCounted(t *testing.T, f func(t *testing.T, r *rig, pauses *countedPauser)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{})
		pauses := &countedPauser{pauser: r.pauser}
		r.pauser = pauses
		go r.Run()
		defer r.Stop()
		r.expect(Asleep)
		r.Poll(true)
		r.link.Wake()
		r.expect(Paused)
		f(t, r, pauses)
	})
}

// pollFor polls for a time without a break.
func (r *rig) pollFor(t time.Duration) {
	for end := r.now() + t; r.now() < end; time.Sleep(10 * time.Microsecond) {
		r.Poll(true)
	}
	synctest.Wait()
}

func TestPollersPostponeTheEndOfThePause(t *testing.T) {
	for _, c := range []struct{ polled, pause time.Duration }{
		{time.Millisecond, pollPause}, {20 * time.Millisecond, 1300 * time.Microsecond}, {10 * time.Second, maxPollPause + pauseSlack},
	} {
		runCounted(t, func(t *testing.T, r *rig, pauses *countedPauser) {
			r.pollFor(c.polled)
			r.expect(Paused)
			if pauses.waits.Load() != 1 {
				t.Errorf("the worker paused %d times while somebody polled for %v", pauses.waits.Load(), c.polled)
			}
			r.arrive()
			time.Sleep(c.pause + pollGrace)
			r.expect(Asleep)
			if r.seen().received != 1 {
				t.Errorf("what came was not received %v after %v of polls", c.pause+pollGrace, c.polled)
			}
		})
	}
}

// A poller that waits in memory between its polls needs the worker, however often it polls.
func TestPollerThatWaitsInMemoryPostponesNoPause(t *testing.T) {
	runCounted(t, func(t *testing.T, r *rig, pauses *countedPauser) {
		r.arrive()
		r.Poll(true) // it finds packets, and what comes next shows in memory
		time.Sleep(answerGrace / 2)
		r.expect(Asleep)
		r.arrive() // the worker receives it, and leaves the answer to the poller
		r.expect(Asleep)
		r.Poll(true)
		r.link.Wake()
		r.expect(Paused)
		before := pauses.waits.Load()
		r.pollFor(memoryTime / 2)
		if n := pauses.waits.Load() - before; n < int32(memoryTime/2/maxPollPause) {
			t.Errorf("the worker looked %d times in %v", n, memoryTime/2)
		}
	})
}

// A program that posts one request after the other defers most of them.
func TestDeferringOftenSetsTheTimerRarely(t *testing.T) {
	runCounted(t, func(t *testing.T, r *rig, pauses *countedPauser) {
		r.pollFor(maxBackoff) // long pauses
		before := pauses.resets.Load()
		const rounds, pause = 1000, 10 * time.Microsecond
		for range rounds {
			r.with(func(p *port) {
				p.ready++
				r.Defer()
			})
			r.Poll(true)
			time.Sleep(pause)
		}
		synctest.Wait()
		if n := pauses.resets.Load() - before; n > int32(rounds*pause/(pollPause/2))+2 || pauses.waits.Load() != 1 {
			t.Errorf("the timer was set %d times and the worker paused %d times", n, pauses.waits.Load())
		}
		r.with(func(p *port) {
			p.ready++
			r.Defer()
		})
		time.Sleep(pollPause + pollGrace)
		r.expect(Asleep)
		if n := r.seen().sent; n != rounds+1 {
			t.Errorf("%d requests were sent %v after the last was deferred, expected %d", n, pollPause+pollGrace, rounds+1)
		}
	})
}
