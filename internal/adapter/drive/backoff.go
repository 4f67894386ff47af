package drive

import "time"

const (
	// pollGrace is how long after the last poll the worker still leaves the progress
	// to pollers. A poller that sends long messages is longer away: where the lane is
	// held, up to sendGrace.
	pollGrace = 250 * time.Microsecond
	sendGrace = 5 * time.Millisecond

	// pollPause is how long the worker stays away from pollers. Where it finds them
	// polling again and again it stays away for longer, up to maxPollPause: each look
	// takes a processor from a poller that spins.
	pollPause    = 200 * time.Microsecond
	maxPollPause = 20 * time.Millisecond

	// pauseSlack is added to pauses of milliseconds. Go's scheduler sleeps for whole
	// ones: it would wake just before the pause is over, and again.
	pauseSlack = 20 * time.Microsecond

	// backoffShare is the time that others have polled, divided by the pause that
	// follows from it.
	backoffShare = 16

	// maxBackoff is the longest time of polling that makes a difference.
	maxBackoff = backoffShare * maxPollPause
)

// A backoff measures for how long others have driven a lane. A break does not end it, but
// shortens it by backoffShare times the break's length.
type backoff struct {
	since time.Duration // they poll as if from then on
	ended time.Duration // when they were found not to
	over  bool          // they poll no more
}

// poll notes that others poll, and returns for how long they have.
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

// pauseAfter is how long the worker stays away from others who have polled for so
// long.
func pauseAfter(polled time.Duration) time.Duration {
	t := min(max(polled/backoffShare, pollPause), maxPollPause)
	if t < time.Millisecond {
		return t
	}
	return t.Truncate(time.Millisecond) + pauseSlack
}
