package ring

import "time"

// While frames come through rings, the devices are polled at an interval, because polling a socket takes
// several times as long as looking into a ring. The interval is a time, not a number of looks, because a
// program may look rarely.
const (
	devicesEvery = 20 * time.Microsecond
	quiet        = 4096 // looks in a row without a frame, after which each look polls the devices too
	busy         = 4    // looks with frames for one that reads the clock
)

// Turns decide when a worker that looks into rings also polls its devices.
type Turns struct {
	All bool // the worker is about to sleep, so rings and devices are emptied

	with   int // looks that found a frame
	empty  int // looks since then that found none
	polled time.Time
}

// Due reports whether to poll the devices after a look into the rings. Found says whether the look found
// frames, must that the devices are polled in any case.
func (t *Turns) Due(found, must bool) bool {
	if t.empty++; found {
		t.empty = 0
		t.with++
	}
	switch {
	case must, t.All, t.empty > quiet:
		return true
	case found && t.with%busy > 0:
		return false
	}
	if time.Since(t.polled) < devicesEvery {
		return false
	}
	t.polled = time.Now()
	return true
}
