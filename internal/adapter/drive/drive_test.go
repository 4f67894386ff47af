package drive

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

func TestIdleLaneSleepsAndRunsNoRounds(t *testing.T) {
	run(t, 0, func(t *testing.T, r *rig) {
		r.expect(Asleep)
		rounds := r.seen().rounds
		time.Sleep(time.Hour)
		r.expect(Asleep)
		if n := r.seen().rounds - rounds; n != 0 || r.link.waits.Load() != 1 {
			t.Errorf("%d rounds and %d sleeps in an hour without work", n, r.link.waits.Load())
		}
	})
}

func TestWorkerReceivesWhatWakesIt(t *testing.T) {
	run(t, 0, func(t *testing.T, r *rig) {
		r.expect(Asleep)
		r.arrive()
		r.expect(Asleep)
		if r.seen().received != 1 {
			t.Errorf("received %d batches, expected 1", r.seen().received)
		}
	})
}

func TestWorkerWakesAtTheDeadline(t *testing.T) {
	run(t, 0, func(t *testing.T, r *rig) {
		r.with(func(p *port) { p.deadline = r.now() + time.Second })
		r.expect(Asleep)
		time.Sleep(time.Second - 1)
		synctest.Wait()
		if r.seen().expired != 0 {
			t.Fatal("expired before the deadline")
		}
		time.Sleep(1 * time.Nanosecond)
		r.expect(Asleep)
		if r.seen().expired != 1 || r.seen().sent != 1 {
			t.Errorf("expired %d times and sent %d, expected 1 and 1", r.seen().expired, r.seen().sent)
		}
	})
}

// A holder that makes the deadline earlier wakes the sleeper. One that makes it later
// does not.
func TestEarlierDeadlineWakesTheSleeper(t *testing.T) {
	run(t, 0, func(t *testing.T, r *rig) {
		r.with(func(p *port) { p.deadline = r.now() + time.Hour })
		r.expect(Asleep)
		waits := r.link.waits.Load()
		r.with(func(p *port) { p.deadline = r.now() + 2*time.Hour })
		r.expect(Asleep)
		if n := r.link.waits.Load(); n != waits {
			t.Errorf("a later deadline woke the sleeper %d times", n-waits)
		}
		r.with(func(p *port) { p.deadline = r.now() + time.Second })
		time.Sleep(time.Second)
		r.expect(Asleep)
		if r.seen().expired != 1 {
			t.Errorf("expired %d times, expected 1", r.seen().expired)
		}
	})
}

func TestWorkerLooksForSpinBeforeItSleeps(t *testing.T) {
	const spin = 50 * time.Microsecond
	run(t, spin, func(t *testing.T, r *rig) {
		r.expect(Asleep)
		if n, most := r.seen().rounds, int(spin/time.Microsecond); n < most/4 || n > most {
			t.Errorf("asleep after %d rounds of some microseconds, expected them to last %v", n, spin)
		}
	})
}

// While callers poll the worker stays away, the longer the longer they have polled.
// It comes back when they stop.
func TestPollerKeepsTheWorkerAway(t *testing.T) {
	run(t, 0, func(t *testing.T, r *rig) {
		const polls = 100_000
		r.arrive()
		r.expect(Asleep)
		r.Poll(true)
		r.link.Wake()
		r.expect(Paused)
		looks := 0
		for range polls {
			r.Poll(true)
			time.Sleep(10 * time.Microsecond)
			if r.State() != Paused {
				looks++
			}
		}
		r.expect(Paused)
		if n := r.seen().rounds - polls; n > 10 || looks > 10 {
			t.Errorf("the worker ran %d rounds and was found %d times while somebody polled", n, looks)
		}
		r.arrive()
		time.Sleep(maxPollPause + time.Millisecond)
		r.expect(Asleep)
		if r.seen().received != 2 {
			t.Error("what came after the last poll was not received")
		}
	})
}

// A poller that leaves requests for its next poll, and never polls again, has paused the
// worker for long before.
func TestWorkerSoonSendsWhatWasDeferred(t *testing.T) {
	run(t, 0, func(t *testing.T, r *rig) {
		r.Poll(true)
		r.link.Wake()
		for range 100_000 {
			r.Poll(true)
			time.Sleep(10 * time.Microsecond)
		}
		r.expect(Paused)
		r.with(func(p *port) {
			p.ready++
			r.Defer()
		})
		time.Sleep(pollGrace + 3*pollPause)
		r.expect(Asleep)
		if n := r.seen().sent; n != 1 {
			t.Errorf("sent %d requests, expected the deferred one", n)
		}
	})
}

// A poller that says that it stops does not leave an acknowledge to a worker that has
// paused for long.
func TestFlushSendsWhatPollsLeft(t *testing.T) {
	run(t, 0, func(t *testing.T, r *rig) {
		r.Poll(true)
		r.link.Wake()
		for range 100_000 {
			r.Poll(true)
			time.Sleep(10 * time.Microsecond)
		}
		r.expect(Paused)
		r.arrive()
		r.with(func(p *port) { p.answer = func() { p.ready++ } })
		r.Poll(true)
		if n := r.seen(); n.received != 1 || n.sent != 0 {
			t.Fatalf("received %d batches, sent %d: expected 1, and the acknowledge to be left", n.received, n.sent)
		}
		r.Flush()
		if n := r.seen().sent; n != 1 {
			t.Errorf("sent %d, expected the acknowledge", n)
		}
	})
}

// A poller that waits for a peer's WRITE in memory answers what the worker received late.
// The acknowledge leaves with the answer. Its last poll found packets: one that found none
// polls on, unless it lost its processor, and then the worker answers.
func TestWorkerLeavesTheAnswerToThePollerThatWaitsInMemory(t *testing.T) {
	for name, found := range map[string]bool{"poll that found packets": true, "poll that found none": false} {
		t.Run(name, func(t *testing.T) {
			run(t, 0, func(t *testing.T, r *rig) {
				r.Poll(true)
				r.link.Wake()
				r.expect(Paused)
				if found {
					r.arrive()
					r.Poll(true)
				}
				var rounds int // before the lane was given up with the packets received
				before := r.seen()
				r.mu.Lock()
				r.port.answer = func() { rounds = r.port.rounds }
				r.port.received = 0
				r.mu.Unlock()
				r.arrive()
				time.Sleep(pollGrace + pollPause)
				r.expect(Asleep)
				n := r.seen()
				if n.received != 1 || n.rounds == before.rounds {
					t.Fatalf("received %d batches in %d rounds, expected 1 and a round", n.received, n.rounds-before.rounds)
				}
				if left := rounds == before.rounds; left != found {
					t.Errorf("the answer was left to the poller: %v, expected %v", left, found)
				}
			})
		})
	}
}

// What the worker receives, the poller may find without a poll, and wait in memory next.
func TestPollerMayWaitInMemoryAfterTheWorkerReceived(t *testing.T) {
	run(t, 0, func(t *testing.T, r *rig) {
		r.Poll(true)
		r.link.Wake()
		r.with(func(*port) {
			if r.mayWaitInMemory(r.now()) {
				t.Error("after a poll that found none")
			}
		})
		r.arrive()
		time.Sleep(pollGrace + pollPause)
		r.expect(Asleep)
		r.with(func(p *port) {
			if p.received != 1 || !r.mayWaitInMemory(r.now()) {
				t.Errorf("not after the worker received %d batches, expected 1", p.received)
			}
		})
	})
}

// A program that computes between its polls is late for one message. It does not wait in
// memory, and polls again: the worker, which takes the processor from it each time it looks,
// soon leaves it alone although it makes breaks.
func TestPollerThatWasLateOnceIsNotDisturbedForLong(t *testing.T) {
	run(t, 0, func(t *testing.T, r *rig) {
		r.arrive()
		r.Poll(true)
		r.link.Wake()
		r.expect(Paused)
		r.arrive()
		time.Sleep(pollGrace + pollPause)
		r.expect(Asleep)
		r.Poll(true)
		r.link.Wake()
		before := r.link.waits.Load()
		for range 300 { // 45 ms
			for range 10 {
				r.arrive()
				r.Poll(true)
				time.Sleep(memoryGrace / 3)
			}
			time.Sleep(memoryGrace + memoryGrace/2)
		}
		if n := r.link.waits.Load() - before; n > 100 {
			t.Errorf("the worker took the lane in %d of 300 breaks", n)
		}
	})
}

func TestPollSendsTheResponseThatAPeerWaitsFor(t *testing.T) {
	run(t, 0, func(t *testing.T, r *rig) {
		r.Poll(true)
		r.link.Wake()
		r.expect(Paused)
		r.with(func(p *port) { p.asked = true })
		r.arrive()
		before := r.seen()
		r.Poll(true)
		if n := r.seen(); n.received != 1 || n.rounds != before.rounds+1 {
			t.Errorf("received %d batches in %d full rounds, expected 1 and 1", n.received, n.rounds-before.rounds)
		}
	})
}

func TestPollTakesWhatCameAndLeavesSendingToTheNext(t *testing.T) {
	run(t, 0, func(t *testing.T, r *rig) {
		r.Poll(true)
		r.link.Wake()
		r.expect(Paused)
		r.arrive()
		rounds := r.seen().rounds
		r.Poll(true)
		if r.seen().received != 1 || r.seen().rounds != rounds {
			t.Errorf("received %d batches in %d full rounds, expected 1 and none", r.seen().received, r.seen().rounds-rounds)
		}
	})
}

// A consumer that finds packets with each poll must not starve deadlines and doorbells.
func TestPollThatAlwaysReceivesServesDoorbellAndDeadline(t *testing.T) {
	run(t, 0, func(t *testing.T, r *rig) {
		r.with(func(p *port) { p.deadline = r.now() + time.Millisecond })
		r.leave() // its ringer has not come to serve it
		time.Sleep(2 * time.Millisecond)
		r.Lock()
		r.port.deadline = r.now()
		r.Driver.mu.Unlock()
		for range 3 {
			r.arrive()
			r.Poll(true)
		}
		if n := r.seen(); n.expired == 0 || n.sent < 2 {
			t.Errorf("expired %d times, sent %d, expected the deadline and the posted request", n.expired, n.sent)
		}
	})
}

// Packets that come late may move a deadline that has passed. A poll that receives them then
// returns without sending: the acknowledge leaves with the caller's answer.
func TestPollOfPacketsThatMoveTheDeadlineReturnsAtOnce(t *testing.T) {
	for _, c := range []struct {
		name  string
		moves time.Duration
		acts  bool
	}{{"moved", time.Hour, false}, {"passed", 0, true}} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, Config{Manual: true})
			r.with(func(p *port) { p.deadline, p.moves = r.now(), c.moves })
			r.arrive()
			r.Poll(true)
			if n := r.seen(); n.received != 1 || (n.rounds > 0) != c.acts {
				t.Errorf("received %d batches, %d rounds acted, expected 1 batch and to act: %v", n.received, n.rounds, c.acts)
			}
		})
	}
}

func TestUnlockServesTheDoorbell(t *testing.T) {
	run(t, 0, func(t *testing.T, r *rig) {
		r.expect(Asleep)
		waits := r.link.waits.Load()
		r.Lock()
		for range 3 {
			r.post() // finds the lane taken
		}
		if r.port.sent != 0 {
			t.Fatal("sent without the lane")
		}
		r.Unlock()
		r.expect(Asleep)
		if n := r.link.waits.Load() - waits; r.seen().sent != 3 || n != 0 {
			t.Errorf("sent %d and woke the worker %d times, expected 3 and 0", r.seen().sent, n)
		}
	})
}

// The holder may have looked at the doorbell just before it rang, and gives the lane up
// just after the ringer tried to take it, or just before.
func TestRingerServesWhatTheHolderDidNotSee(t *testing.T) {
	run(t, 0, func(t *testing.T, r *rig) {
		r.expect(Asleep)
		r.leave()
		r.ServeDoorbell()
		if r.seen().sent != 1 {
			t.Errorf("sent %d, expected 1", r.seen().sent)
		}
	})
}

// A poller that goes to sleep for an event says so: packets that come then do not wait
// for the end of the worker's pause.
func TestAttendEndsThePause(t *testing.T) {
	run(t, 0, func(t *testing.T, r *rig) {
		r.Poll(true)
		r.link.Wake()
		r.expect(Paused)
		r.Attend()
		r.expect(Asleep)
		r.arrive()
		r.expect(Asleep)
		if r.seen().received != 1 {
			t.Error("the batch was not received")
		}
	})
}

// The waiter sleeps in the worker's place: the packet wakes it, and not the worker.
func TestBlockedWaiterIsWokenByThePacket(t *testing.T) {
	run(t, 0, func(t *testing.T, r *rig) {
		r.expect(Asleep)
		done := make(chan bool)
		go func() { done <- r.block(&r.events) }()
		synctest.Wait()
		r.expect(Paused)
		time.Sleep(time.Hour) // however long it takes
		r.expect(Paused)
		began := r.now()
		r.arrive()
		if !<-done || r.now() != began {
			t.Fatalf("the waiter was not woken at once")
		}
		r.expect(Paused)
		if !r.port.Pending() {
			t.Error("no event, expected the waiter to have received the batch")
		}
		time.Sleep(2 * maxPollPause)
		r.expect(Asleep) // the waiter did not come back
	})
}

// A waiter in the link is woken by each message. One that is not awaited ends its sleep there if
// another goroutine polls, which receives the next ones.
func TestWaiterLeavesTheLinkToAPoller(t *testing.T) {
	for _, c := range []struct {
		name  string
		polls bool
		ago   time.Duration
		stays bool
	}{{"nobody polls", false, 0, true}, {"somebody polls", true, pollGrace / 2, false}, {"somebody polled long ago", true, pollGrace, true}} {
		t.Run(c.name, func(t *testing.T) {
			run(t, 0, func(t *testing.T, r *rig) {
				done := make(chan bool)
				go func() { done <- r.block(&r.events) }()
				synctest.Wait()
				time.Sleep(time.Second)
				if c.polls {
					r.Poll(false)
				}
				time.Sleep(c.ago)
				r.link.Wake()
				if stays := <-done; stays != c.stays {
					t.Errorf("the waiter stays: %v, expected %v", stays, c.stays)
				}
				time.Sleep(2 * maxPollPause)
				r.expect(Asleep) // the worker, as no goroutine polls any more
			})
		})
	}
}

// An event that others raise wakes a waiter in the link, where no channel reaches it.
func TestEventOfAnotherGoroutineWakesTheWaiter(t *testing.T) {
	run(t, 0, func(t *testing.T, r *rig) {
		done := make(chan bool)
		go func() { done <- r.block(&r.events) }()
		synctest.Wait()
		r.port.events <- struct{}{}
		r.events.Wake()
		if !<-done {
			t.Error("the waiter did not block")
		}
	})
}

func TestEndOfContextWakesTheWaiter(t *testing.T) {
	run(t, 0, func(t *testing.T, r *rig) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for range 2 { // the second wait finds the context's end watched
			if !r.events.TryLock() || !r.Block(ctx, &r.events, r.port) {
				t.Fatal("the waiter did not block")
			}
			r.events.Unlock()
		}
		if d := r.now(); d != time.Second {
			t.Errorf("woken after %v, expected 1s", d)
		}
		r.events.Forget()
	})
}

// One waiter sleeps in the link. When it leaves, and does not poll or block again at once, the worker drives
// for the others.
func TestWorkerDrivesForWaitersThatSleepElsewhere(t *testing.T) {
	run(t, 0, func(t *testing.T, r *rig) {
		done := make(chan bool)
		go func() { done <- r.block(&r.events) }()
		synctest.Wait()
		var other BlockingWait
		other.Init()
		if r.block(&other) {
			t.Fatal("two waiters sleep in the link")
		}
		r.EnterWait()
		r.arrive()
		<-done
		<-r.port.events
		r.expect(Paused)
		time.Sleep(othersPause)
		r.expect(Asleep)
		r.arrive()
		r.expect(Asleep)
		if r.seen().received != 2 {
			t.Error("what came for the other waiter was not received")
		}
		r.LeaveWait()
		other.Forget()
	})
}

// The first waiter may leave between the second one's attempt to block and its sleep.
func TestWaiterThatComesWhenAnotherLeftIsServed(t *testing.T) {
	run(t, 0, func(t *testing.T, r *rig) {
		r.Poll(true) // as the first one had
		r.link.Wake()
		r.expect(Paused)
		r.EnterWait()
		r.expect(Asleep)
		r.LeaveWait()
	})
}

func TestDeadlineOfABlockedWaiterIsServed(t *testing.T) {
	run(t, 0, func(t *testing.T, r *rig) {
		done := make(chan bool)
		go func() { done <- r.block(&r.events) }()
		synctest.Wait()
		r.with(func(p *port) { p.deadline = r.now() + time.Second })
		for <-done {
			if r.seen().expired > 0 {
				break
			}
			go func() { done <- r.block(&r.events) }()
		}
		if d := r.now(); d != time.Second {
			t.Errorf("expired at %v, expected 1s", d)
		}
	})
}

func TestLinkThatCannotWaitFailsThePort(t *testing.T) {
	for name, sleeper := range map[string]func(r *rig){
		"worker": func(*rig) {},
		"waiter": func(r *rig) { go r.block(&r.events) },
	} {
		t.Run(name, func(t *testing.T) {
			run(t, 0, func(t *testing.T, r *rig) {
				sleeper(r)
				synctest.Wait()
				r.link.fails.Store(true)
				r.link.Wake()
				synctest.Wait()
				if r.seen().failed != errBroken || !r.Stopping() {
					t.Errorf("the port knows of %v, expected %v", r.seen().failed, errBroken)
				}
				if r.Progress() || r.block(&r.events) {
					t.Error("driven after the link failed")
				}
			})
		})
	}
}

func TestStopEndsTheWorkerInEveryState(t *testing.T) {
	for want, prepare := range map[State]func(r *rig){
		Asleep: func(*rig) {},
		Paused: func(r *rig) { r.Poll(true); r.link.Wake() },
	} {
		t.Run(want.String(), func(t *testing.T) {
			run(t, 0, func(t *testing.T, r *rig) {
				synctest.Wait()
				prepare(r)
				r.expect(want)
				began := r.now()
				r.Stop()
				if r.now() != began {
					t.Errorf("Stop took %v", r.now()-began)
				}
			})
		})
	}
}

func TestManualDriverHasNoWorker(t *testing.T) {
	r := newRig(t, Config{Manual: true})
	if r.block(&r.events) {
		t.Error("a waiter sleeps in a link that its caller drives")
	}
	r.Stop()
}

// Posters, pollers, waiters and the network at random, on virtual time: what was posted
// is sent and what came is received, without further calls.
func TestNothingIsLeftUndoneInAnyOrder(t *testing.T) {
	for seed := range uint64(200) {
		run(t, time.Duration(seed%3)*50*time.Microsecond, func(t *testing.T, r *rig) {
			random := rand.New(rand.NewPCG(seed, 0))
			posted, arrived, deadlines := 0, 0, 0
			for range 200 {
				switch random.IntN(9) {
				case 0, 1:
					r.post()
					posted++
				case 2:
					r.Lock()
					go r.post() // the lane may be free again when it comes
					posted++
					r.Unlock()
				case 3:
					r.arrive()
					arrived++
				case 4:
					r.Poll(true)
				case 5:
					for range random.IntN(20) {
						r.Poll(true)
						time.Sleep(20 * time.Microsecond)
					}
					r.Attend()
				case 6:
					go r.block(&r.events)
				case 7:
					r.with(func(p *port) {
						if p.deadline == never {
							deadlines++
							p.deadline = r.now() + time.Duration(random.IntN(int(time.Millisecond)))
						}
					})
				case 8:
					posted++
					r.with(func(p *port) {
						if p.ready++; !r.Sleeping() {
							r.Defer()
						}
					})
				}
				time.Sleep(time.Duration(random.IntN(int(300 * time.Microsecond))))
			}
			time.Sleep(time.Second)
			if p := r.seen(); p.sent != posted+deadlines || p.received != arrived || p.expired != deadlines {
				t.Fatalf("seed %d: sent %d of %d, received %d of %d, %d of %d deadlines",
					seed, p.sent, posted+deadlines, p.received, arrived, p.expired, deadlines)
			}
		})
	}
}

func TestPolledTellsWhetherSomebodyPolls(t *testing.T) {
	run(t, 0, func(t *testing.T, r *rig) {
		if r.Polled(time.Hour) {
			t.Error("polled before the first poll")
		}
		r.Poll(true)
		if !r.Polled(time.Millisecond) {
			t.Error("not polled right after a poll")
		}
		time.Sleep(time.Millisecond)
		if r.Polled(time.Millisecond) {
			t.Error("polled within a millisecond, a millisecond after the last poll")
		}
	})
}
