package adapter

import (
	"time"

	"softrdma/internal/adapter/drive"
	"softrdma/internal/object"
)

// gathers reports whether a request that was posted to q may wait for further ones, so
// that short messages leave as one batch. The next poll sends it, or the worker if nothing
// polls, which must be awake.
func (l *lane) gathers(q *QP) bool {
	if l.gather.full() || q.deferral.Stands() || l.Sleeping() || !l.amongOthers(q) && !l.inStream(q) {
		return false
	}
	left, first := l.gather.wait()
	if first {
		l.Defer()
	}
	q.deferral.Make(left)
	return true
}

// amongOthers reports whether other queue pairs have much in flight to q's peer.
func (l *lane) amongOthers(q *QP) bool {
	return q.sharing.Others() >= gatherBeyond && q.route().Path() != object.PathSameHost
}

// inStream reports whether short messages are posted one after the other, by a program
// that polls.
func (l *lane) inStream(q *QP) bool {
	return l.gather.inStream() && q.Posted() <= gatherShort && l.State() != drive.Stopped && l.Polled(gatherPolled)
}

// ring is the doorbell: work was posted to q's send queue, or q's state wants
// it to send.
func (l *lane) ring(q *QP) {
	if l.TryLock() {
		if l.latencies != nil {
			l.latencies.posted(q)
		}
		if l.tasks.Push(&q.entry); !l.gathers(q) {
			l.Transmit(l.dev.clock())
		}
		l.Unlock()
		return
	}
	if !q.rung.Swap(true) {
		l.Bell.Lock()
		l.bells = append(l.bells, q)
		l.Bell.Ring()
		l.Bell.Unlock()
	}
	l.ServeDoorbell()
}

// takeBells makes the queue pairs ready whose doorbells were left. The caller has the doorbell.
func (l *lane) takeBells() {
	for i, q := range l.bells {
		q.rung.Store(false)
		if l.latencies != nil {
			l.latencies.posted(q)
		}
		l.tasks.Push(&q.entry)
		l.bells[i] = nil
	}
	l.bells = l.bells[:0]
}

const (
	// gatherBeyond is the number of bytes that other queue pairs must have in flight to a peer for a
	// doorbell to wait for theirs.
	gatherBeyond = 64 << 10

	// gatherAfter is the number of doorbells without a poll between them after which further ones
	// wait for each other, if their messages are at most gatherShort bytes long: the program posts
	// a stream. If it did so before the last poll too, all wait.
	gatherAfter = 4

	// gatherShort is the longest message of such a stream, in bytes.
	gatherShort = 4 << 10

	// gatherLimit bounds how many doorbells wait.
	gatherLimit = 64

	// gatherPolled is how long ago the last poll may be: doorbells wait for the next one, and the
	// drivers of a daemon's programs never poll its lanes.
	gatherPolled = 5 * time.Millisecond
)

// doorbells decides which doorbells of a lane wait for further ones, so that short messages leave as
// one batch. It has the counts of the lane's doorbells and polls.
type doorbells struct {
	waiting  int  // doorbells that wait
	rings    uint // doorbells since the last poll
	streamed bool // the program posted a stream between the polls before
}

// full reports whether no further doorbell may wait.
func (c *doorbells) full() bool { return c.waiting == gatherLimit-1 }

// wait counts a doorbell that waits. It returns how many more may, and reports whether it is
// the first.
func (c *doorbells) wait() (left int, first bool) {
	c.waiting++
	return gatherLimit - 1 - c.waiting, c.waiting == 1
}

// sent notes that no doorbell waits any more.
func (c *doorbells) sent() { c.waiting = 0 }

// inStream counts a doorbell, and reports whether it belongs to a stream.
func (c *doorbells) inStream() bool {
	c.rings++
	return c.rings > gatherAfter || c.streamed
}

// polledAgain ends a row of doorbells.
func (c *doorbells) polledAgain() {
	if c.rings > 0 {
		c.streamed, c.rings = c.rings > gatherAfter, 0
	}
}
