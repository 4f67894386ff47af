package waiting

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A queue is a completion queue of the tests. What arrives are waiters, which its owner signals.
type queue struct {
	sync.Mutex
	group   Group
	arrived []*Waiter // completions that no waiter has taken
	armed   bool
	event   chan struct{}
	dead    error
	spin    time.Duration // also how long a call of Progress takes
	polls   atomic.Int32  // calls of Progress

	broken error        // of Next
	sleeps atomic.Int32 // calls of Next that may wait
	inside atomic.Int32 // goroutines in Next
}

func newQueue() *queue {
	q := &queue{event: make(chan struct{}, 1)}
	q.group = New(q)
	return q
}

func (q *queue) Progress() int {
	q.polls.Add(1)
	if q.spin > 0 {
		time.Sleep(time.Microsecond)
	}
	for _, w := range q.arrived {
		q.group.Signal(w)
	}
	defer func() { q.arrived = nil }()
	return len(q.arrived)
}

func (q *queue) Arm() { q.armed = true }

// Next is also called with the lock, if ctx has ended.
func (q *queue) Next(ctx context.Context) error {
	if q.inside.Add(1) > 1 {
		panic("two goroutines sleep on the channel")
	}
	defer q.inside.Add(-1)
	if ctx.Err() == nil {
		q.sleeps.Add(1)
	}
	if q.broken != nil {
		return q.broken
	}
	select {
	case <-q.event:
		return nil
	case <-ctx.Done():
		select { // as a channel of verbs
		case <-q.event:
			return nil
		default:
		}
		return ctx.Err()
	}
}

func (q *queue) Dead() error         { return q.dead }
func (q *queue) Fail(err error)      { q.dead = err }
func (q *queue) Spin() time.Duration { return q.spin }

// arrive adds a completion.
func (q *queue) arrive(w *Waiter) {
	q.Lock()
	defer q.Unlock()
	q.arrived = append(q.arrived, w)
	if q.armed {
		q.armed = false
		q.event <- struct{}{} // one event for each Arm
	}
}

// await waits in a goroutine and reports the result.
func (q *queue) await(ctx context.Context, w *Waiter) <-chan error {
	done := make(chan error, 1)
	go func() {
		q.Lock()
		defer q.Unlock()
		done <- q.group.Await(ctx, w)
	}()
	synctest.Wait()
	return done
}

func expect(t *testing.T, what string, done <-chan error, want error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-done:
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, expected %v", what, err, want)
		}
	default:
		t.Errorf("%s: still waits, expected %v", what, want)
	}
}

func waits(t *testing.T, what string, done <-chan error) {
	t.Helper()
	synctest.Wait()
	if len(done) > 0 {
		t.Errorf("%s: ended with %v, expected that it waits", what, <-done)
	}
}

func run(t *testing.T, f func(t *testing.T, q *queue)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newQueue()) })
}

func TestWaiterThatIsReadyDoesNotSleep(t *testing.T) {
	run(t, func(t *testing.T, q *queue) {
		w := &Waiter{Ready: true}
		expect(t, "await", q.await(t.Context(), w), nil)
		if q.polls.Load() != 0 || q.sleeps.Load() != 0 {
			t.Errorf("%d polls and %d sleeps", q.polls.Load(), q.sleeps.Load())
		}
	})
}

func TestLeaderPollsForTheSpinAndThenSleeps(t *testing.T) {
	run(t, func(t *testing.T, q *queue) {
		q.spin = 50 * time.Microsecond
		var w Waiter
		done := q.await(t.Context(), &w)
		time.Sleep(time.Second)
		waits(t, "the leader", done)
		if q.polls.Load() < 50 || q.polls.Load() > 100 || q.sleeps.Load() != 1 {
			t.Errorf("%d polls of a microsecond and %d sleeps, expected some fifty and one", q.polls.Load(), q.sleeps.Load())
		}
		q.arrive(&w)
		time.Sleep(time.Millisecond) // Progress takes a while
		expect(t, "the leader", done, nil)
	})
}

func TestCompletionBetweenArmAndSleepIsNotLost(t *testing.T) {
	run(t, func(t *testing.T, q *queue) {
		var a, b Waiter
		q.arrived = []*Waiter{&a}
		expect(t, "the first", q.await(t.Context(), &a), nil)
		done := q.await(t.Context(), &b)
		waits(t, "the second", done)
		q.arrive(&b)
		expect(t, "the second", done, nil)
	})
}

func TestOneLeadsForAll(t *testing.T) {
	run(t, func(t *testing.T, q *queue) {
		var w [4]Waiter
		var done [4]<-chan error
		for i := range w {
			done[i] = q.await(t.Context(), &w[i])
		}
		q.arrive(&w[2])
		expect(t, "a parked one", done[2], nil)
		q.arrive(&w[0])
		expect(t, "the leader", done[0], nil)
		for _, i := range []int{1, 3} {
			waits(t, "a parked one", done[i])
			q.arrive(&w[i])
			expect(t, "a parked one after the leader", done[i], nil)
		}
	})
}

func TestContextEndsTheWaitOfLeaderAndParked(t *testing.T) {
	run(t, func(t *testing.T, q *queue) {
		leader, endLeader := context.WithCancel(t.Context())
		parked, endParked := context.WithCancel(t.Context())
		var a, b, c Waiter
		first, second, third := q.await(leader, &a), q.await(parked, &b), q.await(t.Context(), &c)
		endParked()
		expect(t, "a parked one", second, context.Canceled)
		waits(t, "the leader", first)
		endLeader()
		expect(t, "the leader", first, context.Canceled)
		waits(t, "the next leader", third)
		q.arrive(&c)
		expect(t, "the next leader", third, nil)
	})
}

// Signal does not need a completion: the end of a session signals, too.
func TestSignalWakesTheLeaderThatSleeps(t *testing.T) {
	run(t, func(t *testing.T, q *queue) {
		var w Waiter
		done := q.await(t.Context(), &w)
		q.Lock()
		q.group.Signal(&w)
		q.Unlock()
		expect(t, "the leader", done, nil)
		w.Renew()
		again := q.await(t.Context(), &w)
		waits(t, "the same waiter again", again)
		q.arrive(&w)
		expect(t, "the same waiter again", again, nil)
	})
}

func TestChannelThatFailsMakesTheQueueDead(t *testing.T) {
	run(t, func(t *testing.T, q *queue) {
		broken := errors.New("broken")
		q.broken = broken
		var w Waiter
		done := q.await(t.Context(), &w)
		waits(t, "the leader of a dead queue", done)
		q.Lock()
		if q.dead != broken {
			t.Errorf("the queue is dead for %v, expected %v", q.dead, broken)
		}
		q.group.Signal(&w)
		q.Unlock()
		expect(t, "the leader of a dead queue", done, nil)
		ctx, cancel := context.WithCancel(t.Context())
		w.Renew()
		done = q.await(ctx, &w)
		cancel()
		expect(t, "the leader of a dead queue", done, context.Canceled)
	})
}

func TestIdleLeadsWhileNobodyWaits(t *testing.T) {
	run(t, func(t *testing.T, q *queue) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			q.group.Idle(ctx)
			ended <- nil
		}()
		time.Sleep(idleAfter / 2)
		if q.arrive(&Waiter{}); q.polls.Load() != 0 {
			t.Error("idle polls at once")
		}
		time.Sleep(2 * idleAfter)
		synctest.Wait()
		if q.Lock(); len(q.arrived) > 0 || q.inside.Load() != 1 {
			t.Errorf("%d completions are left, %d goroutines sleep", len(q.arrived), q.inside.Load())
		}
		q.Unlock()
		q.arrive(&Waiter{})
		synctest.Wait()
		if q.Lock(); len(q.arrived) > 0 {
			t.Error("idle does not take what arrives")
		}
		q.Unlock()
		var w Waiter
		done := q.await(t.Context(), &w)
		q.arrive(&w)
		expect(t, "a call", done, nil)
		time.Sleep(10 * idleAfter)
		cancel()
		expect(t, "idle", ended, nil)
	})
}

// Goroutines wait, give up and are served at random. Each ends with its result, and no wake-up is
// lost, whichever of them leads.
func TestRandomWaitersAllEnd(t *testing.T) {
	seeds := 200
	if testing.Short() {
		seeds = 20
	}
	for seed := range uint64(seeds) {
		run(t, func(t *testing.T, q *queue) {
			rng := rand.New(rand.NewPCG(seed, 1))
			ctx, cancel := context.WithCancel(t.Context())
			var all sync.WaitGroup
			all.Go(func() { q.group.Idle(ctx) })
			var calls sync.WaitGroup
			for range 1 + rng.IntN(6) {
				random := rand.New(rand.NewPCG(seed, rng.Uint64()))
				calls.Go(func() {
					for range 20 {
						call(t, q, random, &Waiter{})
						time.Sleep(time.Duration(random.IntN(int(2 * idleAfter))))
					}
				})
			}
			calls.Wait()
			cancel()
			all.Wait()
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// call waits for something that arrives after a random time, or gives up before.
func call(t *testing.T, q *queue, random *rand.Rand, w *Waiter) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	arrives, gives := time.Duration(random.IntN(1000))*time.Microsecond, time.Duration(random.IntN(3000))*time.Microsecond
	begun := time.Now()
	answered := time.AfterFunc(arrives, func() { q.arrive(w) })
	time.AfterFunc(gives, cancel)
	q.Lock()
	err := q.group.Await(ctx, w)
	q.Unlock()
	took := time.Since(begun)
	switch {
	case err == nil && (took < arrives || took > arrives+idleAfter):
		t.Errorf("ended after %v, what it waits for arrived after %v", took, arrives)
	case err != nil && (took < gives || took > gives+idleAfter):
		t.Errorf("gave up after %v, expected %v", took, gives)
	}
	answered.Stop()
}
