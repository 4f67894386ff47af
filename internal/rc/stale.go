package rc

import "time"

// A stale is what was under way when the requester went back: the peer drops it,
// and says nothing more, while it takes its place on the path as before. It gets
// less in the course of a round trip.
type stale struct {
	bytes int64
	at    time.Duration
	trip  time.Duration
}

// staleQuantum is how long some of it is waited for: timers of a process are no
// finer.
const staleQuantum = 50 * time.Microsecond

// left is what is still under way.
func (s *stale) left(now time.Duration) int64 {
	passed := now - s.at
	if passed >= s.trip {
		s.bytes = 0
		return 0
	}
	return s.bytes - int64(float64(s.bytes)*float64(passed)/float64(s.trip))
}

// spread takes note of what is under way before everything is sent again: were that
// sent at once, a queue that flowed over would do so again, with the first of it.
func (r *requester) spread(now time.Duration) {
	if !r.rtt.Known() {
		return
	}
	left := r.flight()
	if r.stale.bytes > 0 {
		left += r.stale.left(now)
	}
	r.stale = stale{bytes: min(left, int64(r.q.ctl.Window())), at: now, trip: r.rtt.Smoothed()}
}

// sentAgain tells whether what is missing left again so short a time ago that a NAK
// cannot be of that: it is of what was under way before, when a late packet came
// and others behind it did not count.
func (r *requester) sentAgain(now time.Duration) bool {
	return r.certain && now-r.stale.at < r.rtt.Least()*3/4
}
