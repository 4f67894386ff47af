// Package gather decides which doorbells of a lane wait for further ones, so that short
// messages leave as one batch. It owns the counts of a lane's doorbells and polls. It sends
// nothing.
package gather

import "time"

const (
	// Beyond is the number of bytes that other queue pairs must have in flight to a peer for a
	// doorbell to wait for theirs.
	Beyond = 64 << 10

	// after is the number of doorbells without a poll between them after which further ones
	// wait for each other, if their messages are at most Short bytes long: the program posts
	// a stream. If it did so before the last poll too, all wait.
	after = 4

	// Short is the longest message of such a stream, in bytes.
	Short = 4 << 10

	// atMost bounds how many doorbells wait.
	atMost = 64

	// Polled is how long ago the last poll may be: doorbells wait for the next one, and the
	// drivers of a daemon's programs never poll its lanes.
	Polled = 5 * time.Millisecond
)

// Counts are those of one lane.
type Counts struct {
	waiting  int  // doorbells that wait
	rings    uint // doorbells since the last poll
	streamed bool // the program posted a stream between the polls before
}

// Full reports whether no further doorbell may wait.
func (c *Counts) Full() bool { return c.waiting == atMost-1 }

// Wait counts a doorbell that waits. It returns how many more may, and reports whether it is
// the first.
func (c *Counts) Wait() (left int, first bool) {
	c.waiting++
	return atMost - 1 - c.waiting, c.waiting == 1
}

// Sent notes that no doorbell waits any more.
func (c *Counts) Sent() { c.waiting = 0 }

// InStream counts a doorbell, and reports whether it belongs to a stream.
func (c *Counts) InStream() bool {
	c.rings++
	return c.rings > after || c.streamed
}

// PolledAgain ends a row of doorbells.
func (c *Counts) PolledAgain() {
	if c.rings > 0 {
		c.streamed, c.rings = c.rings > after, 0
	}
}
