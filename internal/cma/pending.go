package cma

import (
	"context"
	"softrdma/internal/cmid"
)

// Wait returns when the channel may hold events, without taking one: who serves
// other processes tells them so, and Poll takes the event when they ask. One
// goroutine may wait, beside which nobody calls Next.
func (c *EventChannel) Wait(ctx context.Context) error {
	select {
	case <-c.signal:
		return nil
	case <-c.done:
		return cmid.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Pending is how many events Poll would give now.
func (c *EventChannel) Pending() int {
	c.m.lock()
	defer c.m.unlock()
	return len(c.list)
}
