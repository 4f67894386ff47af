package adapter

import (
	"math/bits"
	"sync/atomic"

	"softrdma/internal/memory"
	"softrdma/internal/recorder"
	"softrdma/internal/steering"
)

// MaxLanes is the largest number of lanes of a device: a laneSet is a word.
const MaxLanes = 64

// A laneSet is a set of lanes of a device, one bit for each.
type laneSet uint64

func (l *lane) bit() laneSet { return 1 << l.index }

// next takes the first lane out of the set.
func (s *laneSet) next(d *Device) *lane {
	l := d.lanes[bits.TrailingZeros64(uint64(*s))]
	*s &^= l.bit()
	return l
}

// from returns the lanes from number i on, and those before.
func (s laneSet) from(i int) (first, rest laneSet) {
	before := laneSet(1)<<i - 1
	return s &^ before, s & before
}

// A laneList is the lanes of a device and its share of the endpoint's lanes.
type laneList struct {
	lanes   []*lane // at least one; each is part of one of these:
	packets []*packetLane
	streams *streamLane
	share   steering.Share

	pairs     recorder.Pairs
	record    *recorder.Memory          // of the configuration
	elsewhere atomic.Pointer[Elsewhere] // queue pairs of programs
}

// Share is the device's part of its endpoint's lanes.
func (a *laneList) Share() steering.Share { return a.share }

// laneOf returns the lane of the queue pair with a number, nil if the number is another
// device's.
func (a *laneList) laneOf(qpn uint32) *lane {
	if i, ok := a.share.Lane(qpn); ok {
		return a.lanes[i]
	}
	return nil
}

// Barrier waits until the present holder of each lane has given it up: what was made
// invalid before is not in use after.
func (a *laneList) Barrier() {
	a.each((*lane).Barrier)
}

// packetLane returns the lane of the queue pair with a number, nil if the number is another
// device's, or the device's lane carries streams.
func (a *laneList) packetLane(qpn uint32) *packetLane {
	if i, ok := a.share.Lane(qpn); ok && a.packets != nil {
		return a.packets[i]
	}
	return nil
}

// lockedPackets calls f for each lane of packets, with its lock.
func (a *laneList) lockedPackets(f func(*packetLane)) {
	for _, l := range a.packets {
		l.Lock()
		f(l)
		l.Unlock()
	}
}

// endUse is Barrier for a region that is registered no more: peers on this host do not read
// its memory afterwards either.
func (a *laneList) endUse(r *memory.Region) {
	a.locked(func(l *lane) { l.carrier.end(r) })
}

// endWindow is Barrier for a window that was bound: peers do not read its memory afterwards.
func (a *laneList) endWindow() { a.endUse(nil) }

// Flush sends what pollers left to be sent with their next post: they do something else now.
func (a *laneList) Flush() { a.each((*lane).Flush) }

// Settle sends what is owed to peers now: the process is about to end.
func (a *laneList) Settle() { a.locked((*lane).settle) }

// Poll makes the device progress on the caller's goroutine, for whatever may complete. It never
// yields: a caller that has polled for a while sleeps.
func (a *laneList) Poll() { a.each(func(l *lane) { l.Poll(false) }) }

// Attend lets the device progress by itself from now on: who polled so far is going to sleep.
func (a *laneList) Attend() { a.each((*lane).Attend) }

func (a *laneList) each(f func(*lane)) {
	for _, l := range a.lanes {
		f(l)
	}
}

// locked calls f for each lane, with its lock.
func (a *laneList) locked(f func(*lane)) {
	a.each(func(l *lane) {
		l.Lock()
		defer l.Unlock()
		f(l)
	})
}
