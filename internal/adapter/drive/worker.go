package drive

import "time"

// A State is the worker's, see the package's documentation.
type State uint32

// The states.
const (
	Working    State = iota // runs rounds of progress
	Asleep                  // in the link
	Coalescing              // by the clock, while packets gather
	Paused                  // stays away while others drive
	Stopped
)

// String returns the state's name.
func (s State) String() string {
	return [...]string{"working", "asleep", "coalescing", "paused", "stopped"}[s]
}

// State returns the worker's state as it was a moment ago.
func (d *Driver) State() State { return State(d.state.Load()) }

func (d *Driver) enter(s State) { d.state.Store(uint32(s)) }

// Run is the worker: it makes progress when no goroutine polls, and sleeps in the link
// when there is nothing to do. It returns after Stop.
func (d *Driver) Run() {
	defer close(d.stopped)
	defer d.pauser.close()
	defer d.enter(Stopped)
	idleSince := time.Duration(-1)
	var slept time.Duration // in the link, in the last round
	others := backoff{over: true}
	held := notPolled // the poll after which sending was left to the poller last
	memory := waitsNever
	for !d.stopping.Load() {
		now := d.clock()
		if !d.tryWork(now, memory.grace(now)) {
			polled := others.poll(now)
			if memory.brief(now) && !d.single && !d.blocked.Load() {
				d.pauseBriefly()
			} else {
				d.since.Store(int64(others.since))
				d.pause(pauseAfter(polled, memory.pause(now)), memory.over(now))
			}
			idleSince = -1
			continue
		}
		others.end(now)
		d.moderation.slept(slept)
		slept = 0
		if last := d.polled.Load(); last != held && d.mayWaitInMemory(now) && d.receiveForPoller() {
			others, held, memory, idleSince = backoff{over: true}, last, memoryWait{now}, -1
			continue
		}
		busy := d.work()
		deadline := d.port.Next()
		if !busy && idleSince < 0 {
			idleSince = now
		}
		next := Working
		switch {
		case busy:
		case now-idleSince >= d.spin:
			next = Asleep
			d.wakeAt.Store(int64(deadline))
		case d.moderation.due():
			next = Coalescing
		}
		d.Unlock()
		if !d.stopping.Load() {
			slept = d.rest(next, deadline)
		}
		d.wakeAt.Store(0)
		if busy || next != Working {
			idleSince = -1
		}
		d.sleep.Unlock()
	}
}

// work is the worker's round of progress. A poller may find what came without another poll.
func (d *Driver) work() (busy bool) {
	if busy = d.Progress(); busy {
		d.emptyPolls = 0
	}
	return busy
}

// mayWaitInMemory reports whether the last poller may wait for a peer's WRITE in its memory. One
// that found nothing polls on. If it does not, it has lost its processor, and brief pauses of
// the worker would only take the processor from it again. The caller has the lane.
func (d *Driver) mayWaitInMemory(now time.Duration) bool {
	return d.emptyPolls == 0 && d.driven(now, answerGrace)
}

// receiveForPoller receives what came, and reports whether that was a short message. The last
// poller may wait for a peer's WRITE in its memory, and answer it at once. So what is to be
// sent waits for a moment: the acknowledge and the answer leave together, and the peer finds
// both with one poll. If it found the acknowledge alone, it would stop polling as well. The
// worker has the lane and the sleep lock. For a short message, it gives them up.
func (d *Driver) receiveForPoller() bool {
	began := d.clock()
	if _, busy := d.receive(began); !busy || d.clock()-began > shortReceive {
		return false
	}
	d.Unlock()
	d.rest(Coalescing, never)
	d.sleep.Unlock()
	return true
}

// rest sleeps as the next state requires, and returns for how long it slept in the link.
// The worker has the sleep lock.
func (d *Driver) rest(next State, deadline time.Duration) (slept time.Duration) {
	switch next {
	case Asleep:
		d.enter(Asleep)
		began := d.clock()
		d.wait(deadline)
		slept = d.clock() - began
	case Coalescing:
		d.enter(Coalescing)
		coalesce()
		d.turns.take(d.clock())
	default:
		return 0
	}
	d.enter(Working)
	return slept
}

// tryWork takes the lane and the sleep lock for the worker, unless others drive the
// lane: a poller that polled within grace, or a blocked waiter.
func (d *Driver) tryWork(now, grace time.Duration) bool {
	if d.driven(now, grace) || !d.sleep.TryLock() {
		return false
	}
	if d.mu.TryLock() {
		return true
	}
	if d.driven(now, sendGrace) {
		d.sleep.Unlock()
		return false
	}
	d.mu.Lock()
	return true
}

// driven reports whether another goroutine drives the lane: a poller that polled
// within grace, or a blocked waiter.
func (d *Driver) driven(now, grace time.Duration) bool {
	return d.blocked.Load() || now-time.Duration(d.polled.Load()) < grace
}

// pause stays away from the lane for a time, or until a poller or waiter gives up. Pollers may
// postpone the end. While a waiter is blocked the pauser is stopped; unblock starts it.
func (d *Driver) pause(t time.Duration, postpone bool) {
	d.enter(Paused)
	if d.driven(d.clock(), sendGrace) && !d.stopping.Load() {
		if !d.blocked.Load() {
			if postpone {
				d.postponeAt.Store(int64(d.clock() + t/postponeShare))
			}
			d.deferAt.Store(0)
			d.pauser.reset(t)
			if d.deferred.Swap(false) { // before the timer was set
				d.endSoon(d.clock())
			}
		}
		d.pauser.wait()
		d.postponeAt.Store(int64(never))
		d.pauser.stop()
	}
	d.enter(Working)
}

// pauseBriefly is a pause of memoryGrace, which nothing ends. Go's timers would make it one of
// a millisecond and more, because its scheduler sleeps for whole milliseconds. Only they move a
// virtual clock.
func (d *Driver) pauseBriefly() {
	before := d.clock()
	d.enter(Paused)
	if !d.stopping.Load() {
		coalesce()
		d.dozed.take(d.clock())
	}
	d.enter(Working)
	if d.clock() == before {
		d.pause(memoryGrace, false)
	}
}

// Attend makes the worker drive from now on: the goroutine that polled so far goes to
// sleep until an event.
func (d *Driver) Attend() {
	d.polled.Store(notPolled)
	d.resumeWorker()
}

// resumeWorker ends the present pause of the worker.
func (d *Driver) resumeWorker() {
	if d.State() == Paused {
		d.pauser.resume()
	}
}
