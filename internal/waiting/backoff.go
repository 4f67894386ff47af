package waiting

import (
	"context"
	"time"
)

// A Backoff is the pauses between attempts. Each is twice the one before it.
type Backoff struct {
	First, Last time.Duration // bounds of a pause
	pause       time.Duration
}

// Wait waits for the next pause, or until ctx ends, and returns the context's error then.
func (b *Backoff) Wait(ctx context.Context) error {
	b.pause = min(max(2*b.pause, b.First), b.Last)
	return Sleep(ctx, b.pause)
}

// Reset makes the next pause the first again.
func (b *Backoff) Reset() { b.pause = 0 }

// Sleep waits for a duration, or until ctx ends, and returns the context's error then.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
