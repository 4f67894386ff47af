package congestion

import "time"

// automatic is the control of a queue pair that chooses none: a window, and the model of the
// path while that is longer than LongTrip.
type automatic struct {
	window
	model *path

	far    time.Duration // since when all round trips are long for a window's path; 0 if they are not
	next   time.Duration // the path is not emptied before, unless round trips are much longer than was
	was    time.Duration // round trip when it was emptied last and that showed a queue
	checks bool          // the model only finds out whether the path has become longer
}

const (
	farTrips  = 4           // round trips in a row that are long before the path is emptied
	checkTime = time.Second // at least, from one time that the path is found to be longer to the next look
)

// Sent implements Control.
func (a *automatic) Sent(now time.Duration, n int, flight int64) {
	if a.model != nil {
		a.model.Sent(now, n, flight)
	}
}

// Acked implements Control.
func (a *automatic) Acked(now time.Duration, n int, sample time.Duration, rtt *RTT) {
	if a.model == nil {
		a.window.Acked(now, n, sample, rtt)
		if sample > 0 && a.limits.Long > a.limits.Window {
			a.choose(now, sample, rtt)
		}
		return
	}
	least := rtt.Least()
	a.model.Acked(now, n, sample, rtt)
	switch {
	case a.checks && a.model.phase == empty:
	case a.checks:
		a.checks = false
		if rtt.Least() > least {
			a.was, a.next = 0, now+checkTime
		} else {
			a.model = nil // it was a queue
		}
	case rtt.Least() <= shortTrip:
		a.size = min(max(a.model.Window(), initialWindow), a.limits.Window)
		a.model = nil
	}
}

// choose begins a model on a long path, and on one that may have become long.
func (a *automatic) choose(now, sample time.Duration, rtt *RTT) {
	if rtt.Least() > LongTrip {
		a.model = newPath(a.limits)
		a.model.begin(now, a.size, rtt.Least())
		a.model.pace()
		return
	}
	switch {
	case sample <= max(LongTrip, farFactor*rtt.Least()):
		a.far = 0
	case a.far == 0:
		a.far = now
	case now-a.far >= farTrips*sample && (now >= a.next || a.was > 0 && sample > farFactor*a.was):
		a.far, a.was, a.next, a.checks = 0, sample, now+leastEpoch, true
		a.model = newPath(a.limits)
		a.model.begin(now, a.size, sample)
		a.model.least = rtt.Least()
		a.model.enter(now, empty)
		a.model.pace()
	}
}

// Lost implements Control.
func (a *automatic) Lost(now time.Duration, n int, rtt *RTT) {
	if a.model != nil {
		a.model.Lost(now, n, rtt)
		return
	}
	a.window.Lost(now, n, rtt)
}

// Timeout implements Control.
func (a *automatic) Timeout(now time.Duration) {
	if a.model != nil {
		a.model.Timeout(now)
		return
	}
	a.window.Timeout(now)
}

// Notified implements Control. A mark shows that round trips are long for a queue.
func (a *automatic) Notified(now time.Duration, rtt *RTT) {
	if a.model != nil {
		a.model.Notified(now, rtt)
		return
	}
	a.far = 0
	a.window.Notified(now, rtt)
}

// Window implements Control.
func (a *automatic) Window() int {
	if a.model != nil {
		return a.model.Window()
	}
	return a.size
}

// Ready implements Control.
func (a *automatic) Ready(now time.Duration) time.Duration {
	if a.model != nil {
		return a.model.Ready(now)
	}
	return now
}

// Rate implements Control.
func (a *automatic) Rate() float64 {
	if a.model != nil {
		return a.model.Rate()
	}
	return 0
}

// Paces implements Control.
func (a *automatic) Paces() bool { return a.model != nil }
