package adapter

import "time"

// maxHabit is the longest time of polling that makes a difference.
const maxHabit = habitShare * maxPollPause

// habitShare is how many times as long as the lane's goroutine stays away
// others have polled before.
const habitShare = 16

// A habit is for how long others have made a lane progress. It outlasts a break:
// of each moment without them it forgets as much as habitShare of polling.
type habit struct {
	since  time.Duration // they poll as if from then on
	ended  time.Duration // when they were found not to
	ending bool
}

// poll notes that others poll, and tells for how long they have.
func (h *habit) poll(now time.Duration) time.Duration {
	if h.ending {
		polled := h.ended - h.since - habitShare*(now-h.ended)
		h.since, h.ending = now-max(polled, 0), false
	}
	h.since = max(h.since, now-maxHabit)
	return now - h.since
}

// end notes that nobody polls.
func (h *habit) end(now time.Duration) {
	if !h.ending {
		h.ended, h.ending = now, true
	}
}

// pauseAfter is how long the lane's goroutine stays away from others who have polled
// for so long.
func pauseAfter(polled time.Duration) time.Duration {
	d := min(max(polled/habitShare, pollPause), maxPollPause)
	if d < time.Millisecond {
		return d
	}
	return d.Truncate(time.Millisecond) + pauseSlack
}
