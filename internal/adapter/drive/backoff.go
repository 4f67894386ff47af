package drive

import "time"

const (
	// pollGrace is the time after the last poll for which the worker still leaves
	// progress to pollers. While the lane is held it is sendGrace, because a poller that
	// sends long messages polls less often.
	pollGrace = 250 * time.Microsecond
	sendGrace = 5 * time.Millisecond

	// othersPause is the time after which the worker drives for those that wait elsewhere, once a
	// waiter has left the link. A program that handles what it waited for, and blocks again, takes
	// less. Waking the worker for each such time costs more than the program's work.
	othersPause = 100 * time.Microsecond

	// answerGrace is the time after the last poll for which the worker leaves the answer to
	// what it receives to the poller, once.
	answerGrace = 20 * time.Millisecond

	// shortReceive is the longest time that receiving a short message takes. A program that streams
	// does not wait for an answer.
	shortReceive = 100 * time.Microsecond

	// memoryGrace replaces pollGrace for memoryTime after the worker left an answer to a
	// poller that waits in memory between its polls.
	memoryGrace = moderateTime
	memoryTime  = 50 * time.Millisecond

	// briefFor is how long it replaces pollPause as well. Each brief pause takes the processor
	// from the poller: 25 µs on a virtual machine whose timers interrupt for as long. A poller
	// that waits in memory begins that time again with each message that the worker
	// receives. One that polls, and computes between its polls, does not.
	briefFor = 2 * time.Millisecond

	// pollPause is the time that the worker pauses while others poll. The longer they
	// have polled the longer it pauses, up to maxPollPause, because each time it wakes it
	// takes the processor from a poller that spins.
	pollPause    = 200 * time.Microsecond
	maxPollPause = 4 * time.Millisecond

	// pauseSlack is added to pauses of milliseconds. Go's scheduler sleeps for whole
	// milliseconds: it would wake just before the pause is over, and again after it.
	pauseSlack = 20 * time.Microsecond

	// backoffShare is the ratio of the time that others have polled to the pause.
	backoffShare = 16

	// maxBackoff is the time of polling after which the pause is maxPollPause.
	maxBackoff = backoffShare * maxPollPause
)

// A memoryWait says how soon the worker looks again after it left an answer to the poller.
type memoryWait struct{ at time.Duration }

// waitsNever is the memoryWait of a worker that has left no answer.
var waitsNever = memoryWait{time.Duration(notPolled)}

// brief reports whether pauses are brief.
func (m memoryWait) brief(now time.Duration) bool { return now-m.at < briefFor }

// over reports whether the poller is taken for one that only polls.
func (m memoryWait) over(now time.Duration) bool { return now-m.at >= memoryTime }

// grace is the time after the last poll for which the worker leaves progress to pollers.
func (m memoryWait) grace(now time.Duration) time.Duration {
	if m.over(now) {
		return pollGrace
	}
	return memoryGrace
}

// pause is the least pause while others poll.
func (m memoryWait) pause(now time.Duration) time.Duration {
	if m.brief(now) {
		return memoryGrace
	}
	return pollPause
}

// A backoff measures how long others have driven a lane. A break does not reset that time,
// but shortens it by backoffShare times the break's length.
type backoff struct {
	since time.Duration // when they began, moved forward by breaks
	ended time.Duration // when they stopped, if over
	over  bool          // there is no other poller
}

// poll notes that others poll, and returns how long they have done so.
func (b *backoff) poll(now time.Duration) time.Duration {
	if b.over {
		polled := b.ended - b.since - backoffShare*(now-b.ended)
		b.since, b.over = now-max(polled, 0), false
	}
	b.since = max(b.since, now-maxBackoff)
	return now - b.since
}

// end notes that no other goroutine polls.
func (b *backoff) end(now time.Duration) {
	if !b.over {
		b.ended, b.over = now, true
	}
}

// pauseAfter returns how long the worker pauses, at least, when others have polled for a
// time.
func pauseAfter(polled, least time.Duration) time.Duration {
	t := min(max(polled/backoffShare, least), maxPollPause)
	if t < time.Millisecond {
		return t
	}
	return t.Truncate(time.Millisecond) + pauseSlack
}
