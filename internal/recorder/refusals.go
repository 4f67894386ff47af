package recorder

import (
	"sync"
	"time"

	"softrdma/internal/reason"
)

// Refusals keeps the last refusals of a device. Any goroutine may use it.
type Refusals struct {
	mu      sync.Mutex
	ring    ring[note]
	unknown ring[note] // of packets to queue pairs that do not exist: forged ones push out only each other
}

// Add records a refusal. It continues the last record if reason and queue pair are its.
func (r *Refusals) Add(now time.Duration, qpn uint32, d reason.Detail) {
	r.mu.Lock()
	defer r.mu.Unlock()
	to := &r.ring
	if d.Reason == reason.PacketQPN {
		to = &r.unknown
	}
	if x := to.latest(); x != nil && x.qpn == qpn && x.detail.Reason == d.Reason {
		x.last, x.count = now, x.count+1
		return
	}
	*to.place(ringSize) = note{time: now, last: now, qpn: qpn, count: 1, kind: Refused, detail: d}
}

// Records returns the records, the oldest first, and how many older ones there were.
func (r *Refusals) Records() (all []Record, lost uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all, lost = records(&r.ring)
	unknown, n := records(&r.unknown)
	return Merge(all, unknown), lost + n
}

// Since returns the refusals after two cursors, the oldest first, and how many of them are lost, and moves
// the cursors. A refusal that continues the last record that was read is returned with the count since then.
func (r *Refusals) Since(c *[2]Cursor) (all []Record, lost uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all, lost = since(&r.ring, &c[0])
	unknown, n := since(&r.unknown, &c[1])
	return Merge(all, unknown), lost + n
}

// Made returns how many records were made.
func (r *Refusals) Made() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ring.made() + r.unknown.made()
}
