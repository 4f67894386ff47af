package ring

import "time"

// While frames come through rings the devices are polled at an interval: to ask a socket takes several
// times as long as to look into a ring. It is a time and not a number of looks, because a program may look
// seldom.
const (
	devicesEvery = 20 * time.Microsecond
	quiet        = 4096 // looks without a frame after which rings do not count any more
	busy         = 4    // looks with frames, of which one reads the clock
)

// Turns decide whether rings or devices are looked at.
type Turns struct {
	All bool // the worker is about to sleep, and leaves nothing in rings and devices

	with   int // looks that found something
	empty  int // looks that found nothing, since the last that did
	polled time.Time
}

// Due reports whether the devices are to be polled after a look into the rings, which has found something or
// not. Must says that they have to be.
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
