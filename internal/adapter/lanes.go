package adapter

import (
	"math/bits"

	"softrdma/internal/memory"
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

// laneOf returns the lane of the queue pair with a number, nil if the number is another
// device's.
func (d *Device) laneOf(qpn uint32) *lane {
	if i, ok := d.cfg.Share.Lane(qpn); ok {
		return d.lanes[i]
	}
	return nil
}

// Barrier waits until the present holder of each lane has given it up: what was made
// invalid before is not in use after.
func (d *Device) Barrier() {
	d.each((*lane).Barrier)
}

// packetLane returns the lane of the queue pair with a number, nil if the number is another
// device's, or the device's lane carries streams.
func (d *Device) packetLane(qpn uint32) *packetLane {
	if i, ok := d.cfg.Share.Lane(qpn); ok && d.packets != nil {
		return d.packets[i]
	}
	return nil
}

// lockedPackets calls f for each lane of packets, with its lock.
func (d *Device) lockedPackets(f func(*packetLane)) {
	for _, l := range d.packets {
		l.Lock()
		f(l)
		l.Unlock()
	}
}

// endUse is Barrier for a region that is registered no more: peers on this host do not read
// its memory afterwards either.
func (d *Device) endUse(r *memory.Region) {
	d.locked(func(l *lane) { l.carrier.end(r) })
}

// endWindow is Barrier for a window that was bound: peers do not read its memory afterwards.
func (d *Device) endWindow() { d.endUse(nil) }
