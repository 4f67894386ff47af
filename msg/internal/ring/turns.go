package ring

import "time"

// While frames come through rings the devices are polled at an interval: to ask a socket takes several
// times as long as to look into a ring. It is a time and not a number of looks, because a program may look
// seldom.
const (
	devicesEvery = 20 * time.Microsecond
	quiet        = 4096 // looks without a frame after which rings do not count any more
	busy         = 16   // looks with frames, between which the clock is not read
)

// Turns decide whether rings or devices are looked at.
type Turns struct {
	All bool // the worker is about to sleep, and leaves nothing in rings and devices

	with   int // looks that found something, since the clock was read
	empty  int // looks that found nothing, since the last that did
	polled time.Time
}

// Due reports whether the devices are to be polled after a look into the rings, which has found something or
// not. Must says that they have to be. Moving is asked if the time has not come: it reports whether the
// devices have work of messages in flight.
func (t *Turns) Due(found, must bool, moving func() bool) bool {
	t.with++
	if t.empty++; found {
		t.empty = 0
	}
	switch {
	case must, t.All, t.empty > quiet:
		return true
	case found && t.with < busy:
		return false
	}
	t.with = 0
	if time.Since(t.polled) < devicesEvery && !moving() {
		return false
	}
	t.polled = time.Now()
	return true
}
