package rdmanet

import (
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// A deadline is the context of calls of one direction: it ends when the time
// that the program set has come, and for ever when the direction closes. It is
// a context.Context so that a call can sleep on a completion channel with it,
// and unlike those of package context it can be put off.
type deadline struct {
	passed atomic.Bool // the program's time has come

	mu    sync.Mutex
	at    time.Time
	timer *time.Timer
	done  chan struct{}
	shut  bool // done is closed
	over  bool // for ever
}

func (d *deadline) init() { d.done = make(chan struct{}) }

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
		d.shutDown()
		return
	}
	d.passed.Store(false)
	if d.shut && !d.over {
		d.done, d.shut = make(chan struct{}), false
	}
	switch {
	case t.IsZero():
	case d.timer == nil:
		d.timer = time.AfterFunc(wait, d.fire)
	default:
		d.timer.Reset(wait)
	}
}

// fire may be late: for a time that was put off since.
func (d *deadline) fire() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.at.IsZero() && time.Until(d.at) <= 0 {
		d.passed.Store(true)
		d.shutDown()
	}
}

// end ends the direction.
func (d *deadline) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.over = true
	d.shutDown()
}

// stop gives the timer up.
func (d *deadline) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at = time.Time{}
	if d.timer != nil {
		d.timer.Stop()
	}
}

func (d *deadline) shutDown() {
	if !d.shut {
		d.shut = true
		close(d.done)
	}
}

// Deadline implements context.Context.
func (d *deadline) Deadline() (time.Time, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.at, !d.at.IsZero()
}

// Done implements context.Context.
func (d *deadline) Done() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.done
}

// Err implements context.Context.
func (d *deadline) Err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.shut {
		return os.ErrDeadlineExceeded
	}
	return nil
}

// Value implements context.Context.
func (d *deadline) Value(any) any { return nil }
