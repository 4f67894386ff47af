package memory

import (
	"sync"
	"sync/atomic"

	"softrdma/internal/reason"
)

const (
	// A store of at least deferFrom bytes is deferred, because more may follow: a call costs
	// as much as copying some kilobytes, and messages come in packets.
	deferFrom = 1024

	// deferLimit is the maximum number of deferred bytes.
	deferLimit = 256 << 10
)

// A Loss is a deferred store to another process that failed.
type Loss struct {
	PD uint32
	reason.Detail
}

// deferred holds stores to another process that are in its mirror but not yet in the process:
// one run of bytes of one region.
type deferred struct {
	waiting atomic.Bool

	mu     sync.Mutex
	region *Region
	off    uint64
	n      int
	losses []Loss
}

// add defers the store of n bytes at offset off of r, and reports false if it must be made
// now. Stores reach the process in order.
func (d *deferred) add(r *Region, off uint64, n int) bool {
	if n < deferFrom && !d.waiting.Load() {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.region == r && off == d.off+uint64(d.n) && d.n+n <= deferLimit {
		d.n += n
		return true
	}
	d.write()
	if n < deferFrom {
		return false
	}
	d.region, d.off, d.n = r, off, n
	d.waiting.Store(true)
	return true
}

// settle makes the deferred stores before another operation.
func (d *deferred) settle() {
	if d.waiting.Load() {
		d.mu.Lock()
		d.write()
		d.mu.Unlock()
	}
}

// write makes the deferred stores.
func (d *deferred) write() {
	if d.region == nil {
		return
	}
	r := d.region
	if f := r.foreign; f.Space.Store(f.Addr+d.off, r.mem[d.off:d.off+uint64(d.n)]) != nil {
		d.losses = append(d.losses, Loss{r.PD, unmapped(f.Addr+d.off, d.n)})
	}
	d.region, d.n = nil, 0
	d.waiting.Store(false)
}

// Deferred reports whether stores to other processes wait for Flush.
func (t *Table) Deferred() bool { return t.deferred.waiting.Load() }

// Flush makes the deferred stores to other processes. A lane calls it before the stores become
// observable: before it acknowledges, completes and is unlocked. It returns the failed ones,
// once.
func (t *Table) Flush() []Loss {
	d := &t.deferred
	d.mu.Lock()
	defer d.mu.Unlock()
	d.write()
	losses := d.losses
	d.losses = nil
	return losses
}
