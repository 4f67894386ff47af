package rdmanet

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// A deadline ends the calls of one direction: when the time has come that the
// program set, and forever when the direction closes. Unlike a context's it can
// be put off, also when it has passed.
type deadline struct {
	passed atomic.Bool // the program's time has come

	mu     sync.Mutex
	at     time.Time
	timer  *time.Timer
	ctx    context.Context // ended, or ends with the deadline
	cancel context.CancelFunc
	over   bool // forever
}

func (d *deadline) init() { d.ctx, d.cancel = context.WithCancel(context.Background()) }

// context is one that ends with the deadline as it is set now, or earlier.
func (d *deadline) context() context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ctx
}

// set sets the time, zero for none.
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

// fire may come late: for a time that was put off since.
func (d *deadline) fire() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.at.IsZero() && time.Until(d.at) <= 0 {
		d.passed.Store(true)
		d.cancel()
	}
}

// end ends the direction.
func (d *deadline) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.over = true
	d.cancel()
}

// stop gives the timer up.
func (d *deadline) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at = time.Time{}
	if d.timer != nil {
		d.timer.Stop()
	}
	d.cancel()
}
