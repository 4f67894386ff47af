package stream

import (
	"syscall"
	"time"

	"softrdma/internal/adapter/schedule"
	"softrdma/internal/link"
	"softrdma/internal/machine"
)

// Packets is how many packets a turn of a stream counts for among the lane's tasks.
const Packets = link.MaxPackets / 2

// A task is a Stream as its lane schedules it.
type task Stream

var _ schedule.Task = (*task)(nil)

// Next sends what there is, as far as a turn goes.
func (t *task) Next(now time.Duration) (packets int, more bool) {
	(*Stream)(t).pump(now)
	return Packets, false
}

// Deadline is the machine's.
func (t *task) Deadline() time.Duration {
	if t.closed {
		return machine.Never
	}
	return (*Stream)(t).deadline()
}

// deadline is the machine's, or when a rule of faults lets a part of the stream pass.
func (c *Stream) deadline() time.Duration { return min(c.m.Deadline(), c.faulty.due()) }

// Expire acts on it. A stream that is not connected by then fails.
func (t *task) Expire(now time.Duration) {
	c := (*Stream)(t)
	if c.closed {
		return
	}
	c.expire(now)
	if c.m.Deadline() > now {
		return
	}
	if c.dialing {
		c.fail(now, syscall.ETIMEDOUT)
		return
	}
	c.m.Expire(now)
	c.after(now)
	c.s.Tasks.Push(&c.entry)
}
