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

// Run is the worker: it makes progress when nobody polls, and sleeps in the link
// when there is nothing to do. It returns after Stop.
func (d *Driver) Run() {
	defer close(d.stopped)
	defer d.enter(Stopped)
	idleSince := time.Duration(-1)
	var slept time.Duration // in the link, in the last round
	others := backoff{over: true}
	paused := false
	for !d.stopping.Load() {
		now := d.clock()
		if !d.tryWork(now) {
			d.pause(pauseAfter(others.poll(now)))
			idleSince, paused = -1, true
			continue
		}
		others.end(now)
		d.moderation.slept(slept)
		slept = 0
		if paused && d.receiveLate() {
			others = backoff{over: true}
			paused = false
			continue
		}
		paused = false
		busy := d.Progress()
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

// receiveLate receives what came while the worker was paused, and reports whether there
// was something. The poller of before may wait for a peer's WRITE in its memory, and answer
// it at once. So what is to be sent waits for a moment: the acknowledge and the answer leave
// together, and the peer finds both with one poll. If it found the acknowledge alone, it
// would stop polling as well. The worker has the lane and the sleep lock. If there was
// something, it gives them up.
func (d *Driver) receiveLate() bool {
	if _, busy := d.receive(d.clock()); !busy {
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
// lane.
func (d *Driver) tryWork(now time.Duration) bool {
	if d.driven(now, pollGrace) || !d.sleep.TryLock() {
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

// pause stays away from the lane for a time, or until a poller or waiter gives up.
// While a waiter is blocked the timer is stopped; unblock starts it.
func (d *Driver) pause(t time.Duration) {
	d.enter(Paused)
	if d.driven(d.clock(), sendGrace) && !d.stopping.Load() {
		if !d.blocked.Load() {
			d.pauseTimer.Reset(t)
			if d.deferred.Swap(false) { // before the timer was set
				d.pauseTimer.Reset(pollPause)
			}
		}
		select {
		case <-d.resume:
		case <-d.pauseTimer.C:
		}
		d.pauseTimer.Stop()
	}
	d.enter(Working)
}

// Attend makes the worker drive from now on: the goroutine that polled so far goes to
// sleep until an event.
func (d *Driver) Attend() {
	d.polled.Store(neverPolled)
	d.resumeWorker()
}

// resumeWorker ends the present pause of the worker.
func (d *Driver) resumeWorker() {
	if d.State() == Paused {
		select {
		case d.resume <- struct{}{}:
		default:
		}
	}
}
