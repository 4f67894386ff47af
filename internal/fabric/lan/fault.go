package lan

import (
	"math"

	"softrdma/internal/fabric/dcb"
	"softrdma/internal/reason"
	"softrdma/internal/topology"
	"softrdma/internal/wire/ethernet"
)

// Faults are what a cable does to the frames of both directions.
type Faults struct {
	BitErrors float64 // probability that a bit flips: the frame fails its check and is dropped
	PauseLoss float64 // probability that a frame which pauses is lost

	Judge Judge // of the other frames; may be nil
}

// A Judge decides what happens to a frame on a cable. It may change the frame.
type Judge interface {
	Judge(now dcb.Time, f *dcb.Frame) Fate
}

// A Fate is what happens to a frame on a cable.
type Fate struct {
	Drop      bool
	Duplicate bool
	Delay     dcb.Time // others pass it meanwhile
}

// SetFaults sets what the cable of a port does to frames from now on; nil is nothing. Without a cable it
// does nothing.
func (x *Extras) SetFaults(at topology.End, f *Faults) {
	if e := x.net.end(at); e.peer >= 0 {
		e.faults, x.net.ends[e.peer].faults = f, f
	}
}

// Faults returns what the cable of a port does to frames, nil for nothing.
func (x *Extras) Faults(at topology.End) *Faults { return x.net.end(at).faults }

// Errors returns the number of frames that were lost by faults of the cable on their way to a port.
func (x *Extras) Errors(at topology.End) uint64 { return x.net.end(at).errors }

// disturb applies the faults of a cable to a frame on its way to an end, and reports whether the frame
// continues by itself.
func (x *Extras) disturb(to *end, f *dcb.Frame) bool {
	if f.Op != 0 {
		if x.random.Float64() >= to.faults.PauseLoss {
			return true
		}
		to.errors++
		x.part.pool.Put(f)
		return false
	}
	// The probability that at least one of the bits flips, without loss of precision where it is small.
	bits := 8 * float64(f.Len)
	fate := Fate{Drop: x.random.Float64() < -math.Expm1(bits*math.Log1p(-to.faults.BitErrors))}
	if to.faults.Judge != nil && !fate.Drop {
		fate = to.faults.Judge.Judge(x.part.now, f)
	}
	switch {
	case fate.Drop:
		to.errors++
		to.node.Dropped(x.part.now, to.at.Port, f, reason.Detail{Reason: reason.EthernetCheck, Expected: uint64(f.Len), Found: uint64(f.Priority)})
		x.part.pool.Put(f)
		return false
	case fate.Duplicate:
		x.delay(to, x.part.pool.Duplicate(f), f.Tail-x.part.now)
	}
	if fate.Delay > 0 {
		x.delay(to, f, f.Tail-x.part.now+fate.Delay)
		return false
	}
	return true
}

// delay hands a frame over to an end after a time, unless the cable is cut then.
func (x *Extras) delay(to *end, f *dcb.Frame, time dcb.Time) {
	x.later(x.part.now+time, func() {
		f.At, f.Tail = x.part.now, x.part.now
		if to.cut {
			to.lost++
			to.node.Dropped(x.part.now, to.at.Port, f, dcb.LinkDown(to.at.Port, f.Priority))
			x.part.pool.Put(f)
			return
		}
		x.part.hand(to, f)
	})
}

// Pause sends a frame of a host that pauses its switch, beside the pauses of the host's port. The network
// owns the frame.
func (x *Extras) Pause(now dcb.Time, node int, f *dcb.Frame) {
	x.part.advance(now)
	k := &x.net.nodes[node]
	if !k.host.Up() {
		x.part.pool.Put(f)
		return
	}
	f.Len = ethernet.MinLen + ethernet.CheckLen
	k.carry(x.part.now, 1, f) // Pausing would show it to the system that has sent it
}
