package drive

import "time"

// Poll makes progress on the goroutine of a caller that waits for a completion, or for a
// peer's WRITE to show in memory. It returns as soon as packets came. What is to be sent
// then, acknowledges mostly, leaves together with what the caller posts in answer, or with
// the next poll, or when the worker finds that no program polls. Responses leave at once: they are
// the answer. The next poll does not postpone it again, nor doorbells and deadlines: a caller
// that finds packets with each poll would starve them.
//
// After polls without success it yields the processor, if the caller may: not while it may hold a
// lock that others spin for, as those would get the processor.
func (d *Driver) Poll(mayYield bool) {
	now := d.clock()
	d.polled.Store(int64(now)) // the worker leaves the next round to the poller
	d.postpone(now)
	if !d.mu.TryLock() {
		// The holder may have been preempted; spinning would keep it so.
		if mayYield {
			d.yield()
		}
		return
	}
	busy := d.port.Serve()
	late := d.port.Next() == 0
	again := d.emptyPolls > 0 // a second look costs less than coming back for it
	for range ReceiveBudget {
		after, ok := d.port.Receive(now)
		if !ok {
			if !again {
				break
			}
			again = false
			continue
		}
		now, busy = after, true
		if d.port.Asked() { // it need not wait for the caller's answer, nor for what comes next
			break
		}
		if !late && !d.port.Overdue(now) { // what came may have moved the deadline
			d.emptyPolls = 0
			d.Unlock()
			return
		}
	}
	if d.port.Act(now) || busy {
		d.emptyPolls = 0
		d.polled.Store(int64(d.clock())) // sending may have taken long
	} else {
		d.emptyPolls++
	}
	due := mayYield && d.yieldDue()
	d.Unlock()
	if due {
		d.yield()
	}
}

// Flush sends what polls have left to be sent with what follows them. A poller calls it
// before it does something else; otherwise the worker does so when its pause is over.
func (d *Driver) Flush() {
	if d.State() == Paused && d.mu.TryLock() {
		d.Progress()
		d.Unlock()
	}
}

// Polled reports whether the last poll was less than a time ago.
func (d *Driver) Polled(within time.Duration) bool {
	return d.clock()-time.Duration(d.polled.Load()) < within
}

// yieldDue reports whether the poller has waited long enough to yield its processor. The
// caller has the lane.
func (d *Driver) yieldDue() bool {
	after := uint(yieldAfter)
	if d.placement.exclusive.Load() && !d.single {
		after = yieldExclusiveAfter
	}
	return d.emptyPolls%after == after-1
}
