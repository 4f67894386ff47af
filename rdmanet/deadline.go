package rdmanet

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// A deadline ends the waiting calls of one direction: when the time that the
// program set has come, and permanently when the direction is closed. Unlike the
// deadline of a context it can be moved, even after it has passed.
type deadline struct {
	passed atomic.Bool // the time that the program set has come

	mu     sync.Mutex
	at     time.Time
	timer  *time.Timer
	ctx    context.Context // is done at the deadline
	cancel context.CancelFunc
	over   bool // the direction is closed
}

func (d *deadline) init() { d.ctx, d.cancel = context.WithCancel(context.Background()) }

// context returns a context that is done at the current deadline or earlier.
func (d *deadline) context() context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ctx
}

// set sets the deadline; the zero time means none.
func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at = t
	if d.timer != nil {
		d.timer.Stop()
	}
	wait := time.Until(t)
	if !t.IsZero() && wait <= 0 {
		d.passed.Store(true)
		d.cancel()
		return
	}
	d.passed.Store(false)
	if d.ctx.Err() != nil && !d.over {
		d.init()
	}
	switch {
	case t.IsZero():
	case d.timer == nil:
		d.timer = time.AfterFunc(wait, d.fire)
	default:
		d.timer.Reset(wait)
	}
}

// fire handles the timer. The deadline may have been moved since the timer was set.
func (d *deadline) fire() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.at.IsZero() && time.Until(d.at) <= 0 {
		d.passed.Store(true)
		d.cancel()
	}
}

// end ends waiting permanently.
func (d *deadline) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.over = true
	d.cancel()
}

// stop stops the timer.
func (d *deadline) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at = time.Time{}
	if d.timer != nil {
		d.timer.Stop()
	}
	d.cancel()
}
