package adapter

import (
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/reason"
)

const (
	// pollGrace is how long after somebody polled the lane's goroutine still
	// leaves the progress to them, and pollPause how long it then stays away.
	// Where it finds them polling again and again (habit) it stays away for longer,
	// up to maxPollPause: each look takes a processor from somebody who spins. A poller that sends long messages
	// is longer away: where the lane is held, up to sendGrace.
	pollGrace    = 250 * time.Microsecond
	sendGrace    = 5 * time.Millisecond
	pollPause    = 200 * time.Microsecond
	maxPollPause = 20 * time.Millisecond

	// pauseSlack is what a pause of milliseconds has more. Go's scheduler sleeps
	// for whole ones: it would wake just before the pause is over, and again.
	pauseSlack = 20 * time.Microsecond
)

// run is the lane's own goroutine: it makes progress when nobody polls, and
// sleeps in the kernel when there is nothing to do.
func (l *lane) run() {
	defer close(l.stopped)
	idleSince := time.Duration(-1)
	others := habit{ending: true}
	for !l.closing.Load() {
		now := l.dev.clock()
		if !l.enter(now) {
			l.pause(pauseAfter(others.poll(now)))
			idleSince = -1
			continue
		}
		others.end(now)
		busy := l.progress()
		deadline := l.next()
		if !busy && idleSince < 0 {
			idleSince = now
		}
		asleep := !busy && now-idleSince >= l.dev.cfg.Spin
		if asleep {
			l.sleeping.Store(int64(deadline))
			l.bulk.end()
		}
		nap := !busy && !asleep && l.bulk.dry()
		l.unlock()
		switch {
		case busy:
			idleSince = -1
		case l.closing.Load():
		case nap:
			l.bulk.nap()
			l.turns.Take(l.dev.clock())
			idleSince = -1
		case asleep:
			l.wait(deadline)
			l.sleeping.Store(0)
			idleSince = -1
		}
		l.bed.Unlock()
	}
}

// enter takes the lane and its bed for the lane's goroutine, unless others make
// the lane progress.
func (l *lane) enter(now time.Duration) bool {
	if l.away(now, pollGrace) || !l.bed.TryLock() {
		return false
	}
	if l.mu.TryLock() {
		return true
	}
	if l.away(now, sendGrace) {
		l.bed.Unlock()
		return false
	}
	l.mu.Lock()
	return true
}

// away tells whether somebody else makes the lane progress: a poller, or a
// waiter that sleeps in the lane goroutine's place.
func (l *lane) away(now, grace time.Duration) bool {
	return l.napping.Load() || now-time.Duration(l.polled.Load()) < grace
}

// pause stays away from the lane for d, or until a poller or waiter gives up.
// While a waiter naps the timer is stopped; rise starts it.
func (l *lane) pause(d time.Duration) {
	l.pausing.Store(true)
	if l.away(l.dev.clock(), sendGrace) && !l.closing.Load() {
		if !l.napping.Load() {
			l.pauseTimer.Reset(d)
		}
		select {
		case <-l.attention:
		case <-l.pauseTimer.C:
		}
		l.pauseTimer.Stop()
	}
	l.pausing.Store(false)
}

// attend tells that whoever polled so far goes to sleep until an event: the
// lane's goroutine makes progress from now on.
func (l *lane) attend() {
	l.polled.Store(neverPolled)
	l.call()
}

// call ends the present pause of the lane's goroutine.
func (l *lane) call() {
	if l.pausing.Load() {
		select {
		case l.attention <- struct{}{}:
		default:
		}
	}
}

func (l *lane) wait(deadline time.Duration) {
	d := time.Duration(-1)
	if deadline != machine.Never {
		d = max(deadline-l.dev.clock(), 0)
	}
	err := l.link.Wait(d)
	l.turns.Take(l.dev.clock())
	if err != nil && !l.closing.Load() {
		// A link that cannot wait any more ends the port, not the process.
		l.dev.Raise(machine.EventDeviceFatal, nil, reason.Detail{Reason: reason.SendFailed})
		l.closing.Store(true)
		l.mu.Lock()
		for _, q := range l.qps { // who waits for a completion gets a flushed one
			q.fail(l.dev.clock(), reason.Detail{Reason: reason.SendFailed})
		}
		l.unlock()
	}
}
