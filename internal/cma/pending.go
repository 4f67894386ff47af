package cma

import (
	"context"
	"softrdma/internal/cmid"
)

// Wait waits until the channel may hold events, without removing one. A server of
// other processes uses it to notify them; they then call Poll. Only one goroutine
// may wait, and none may call Next at the same time.
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

// Pending returns how many events Poll would return now.
func (c *EventChannel) Pending() int {
	c.m.lock()
	defer c.m.unlock()
	return len(c.list)
}
