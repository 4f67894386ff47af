package adapter

import (
	"math/bits"

	"softrdma/internal/frame"
)

// MaxLanes is how many lanes a device has at most: their sets are words.
const MaxLanes = 64

// A laneSet names lanes of a device, one bit for each.
type laneSet uint64

func (l *lane) bit() laneSet { return 1 << l.index }

// next takes the first lane out of the set.
func (s *laneSet) next(d *Device) *lane {
	l := d.lanes[bits.TrailingZeros64(uint64(*s))]
	*s &^= l.bit()
	return l
}

// from is the set without the lanes before number i, and those.
func (s laneSet) from(i int) (first, rest laneSet) {
	before := laneSet(1)<<i - 1
	return s &^ before, s & before
}

// laneOf is the lane of the queue pair with a number.
func (d *Device) laneOf(qpn uint32) *lane { return d.lanes[frame.LaneOf(qpn, len(d.lanes))] }

// newQPN draws an unpredictable number of a queue pair on l, which the caller
// has.
func (d *Device) newQPN(l *lane) uint32 {
	for {
		n := d.random24()
		if n > 0xff && n < multicastQPN && d.laneOf(n) == l && l.qps[n] == nil {
			return n
		}
	}
}

// barrier waits until the present holder of each lane is through: what was
// made invalid before is not in use after.
func (d *Device) barrier() {
	for _, l := range d.lanes {
		l.Barrier()
	}
}
