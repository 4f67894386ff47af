package adapter

import (
	"syscall"
	"time"

	"softrdma/internal/adapter/schedule"
	"softrdma/internal/link"
	"softrdma/internal/machine"
)

// streamPackets is how many packets a turn of a stream counts for among the
// lane's tasks.
const streamPackets = link.MaxPackets / 2

// A streamTask is a Stream as its lane schedules it.
type streamTask Stream

var _ schedule.Task = (*streamTask)(nil)

// Next sends what there is, as far as a turn goes.
func (t *streamTask) Next(now time.Duration) (packets int, more bool) {
	(*Stream)(t).pump(now)
	return streamPackets, false
}

// Deadline is the machine's.
func (t *streamTask) Deadline() time.Duration {
	if t.closed {
		return machine.Never
	}
	return t.m.Deadline()
}

// Expire acts on it. A stream that is not connected by then fails.
func (t *streamTask) Expire(now time.Duration) {
	c := (*Stream)(t)
	if c.closed || c.m.Deadline() > now {
		return
	}
	if c.dialing {
		c.fail(now, syscall.ETIMEDOUT)
		return
	}
	c.m.Expire(now)
	c.after(now)
	c.s.lane.tasks.Push(&c.entry)
}
