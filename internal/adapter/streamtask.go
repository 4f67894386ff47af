package adapter

import (
	"syscall"
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/qp"
)

// streamTask is a Stream as what its lane schedules: its machine among those of
// the queue pairs. It sends for itself and never has a packet.
type streamTask Stream

// Receive is never called.
func (t *streamTask) Receive(time.Duration, *machine.In) {}

// Next sends what there is.
func (t *streamTask) Next(now time.Duration, _ *machine.Out) bool {
	(*Stream)(t).pump(now)
	return false
}

// Deadline is the stream's.
func (t *streamTask) Deadline() time.Duration {
	if t.closed {
		return machine.Never
	}
	return t.m.Deadline()
}

// Expire acts on it.
func (t *streamTask) Expire(now time.Duration) {
	c := (*Stream)(t)
	if c.closed {
		return
	}
	if c.dialing && c.m.Deadline() <= now {
		c.fail(now, syscall.ETIMEDOUT)
		return
	}
	c.m.Expire(now)
	c.after(now)
}

// Transition is never called.
func (t *streamTask) Transition(time.Duration, qp.State) {}
