package drive

import (
	"sync"
	"sync/atomic"
)

// A Doorbell tells the holder of a lane that another goroutine left something for
// it. Its lock guards what is left, which belongs to the Port. The zero value is ready
// for use.
type Doorbell struct {
	mu   sync.Mutex
	rung atomic.Bool
}

// Lock takes what was left, and may be left, with the doorbell.
func (b *Doorbell) Lock() { b.mu.Lock() }

// Unlock ends Lock.
func (b *Doorbell) Unlock() { b.mu.Unlock() }

// Ring announces that something was left. The caller has the doorbell's lock, and calls
// Driver.ServeDoorbell after it gave that up.
func (b *Doorbell) Ring() { b.rung.Store(true) }

// Answer notes that all of it was taken. The caller has the doorbell's lock.
func (b *Doorbell) Answer() { b.rung.Store(false) }

// Rung reports whether something was left.
func (b *Doorbell) Rung() bool { return b.rung.Load() }

// Defer notes that the caller left something ready that is to be sent with what follows:
// by the next poll, or soon by the worker if there is none. The caller has the lane, and
// there is no sleeper in the link.
func (d *Driver) Defer() {
	d.deferred.Store(true)
	if d.State() != Paused {
		return
	}
	if now := d.clock(); int64(now) >= d.deferAt.Load() {
		d.endSoon(now)
	}
}

// ServeDoorbell serves the doorbell if the lane is free; otherwise its holder does. The
// goroutine that rang calls it, because the last holder may have looked just before.
func (d *Driver) ServeDoorbell() {
	if d.mu.TryLock() {
		d.serve()
		d.Unlock()
	}
}
