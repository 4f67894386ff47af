// Package flight estimates how much of a stream is in flight on its path, which is how much its
// buffers must hold so that it does not stop. It reads no clock: the time is an argument.
package flight

import "time"

// longTrip is the round trip from which on buffers follow the path. On a shorter one the initial
// size is enough, and a process that waits for its processor takes longer than the packets.
const longTrip = time.Millisecond

// needSamples is the number of samples after which older ones begin to be forgotten.
const needSamples = 16

// A Tuner estimates how much of a stream fits into the path: the bytes that pass in a round trip.
// It times one message at a time until the peer's device has acknowledged it.
type Tuner struct {
	trip    time.Duration // the smallest so far; 0 if there is none
	needs   [2]int        // largest of these samples, and of those before
	samples int

	short  bool // Path has said so
	timing bool
	since  time.Duration
	from   uint64 // bytes that had passed at that time
}

// Path says how long the path's round trip was when the connection was made. On a short path
// nothing is needed, however long messages take.
func (t *Tuner) Path(trip time.Duration) { t.short = trip <= longTrip }

// Short reports whether the path is known to be short.
func (t *Tuner) Short() bool { return t.short || t.trip > 0 && t.trip <= longTrip }

// Trip returns the shortest round trip that was timed, 0 if there is none.
func (t *Tuner) Trip() time.Duration { return t.trip }

// Forget forgets what a stream that has become idle needed.
func (t *Tuner) Forget() { t.needs, t.samples = [2]int{}, 0 }

// Timing reports whether a message is being timed.
func (t *Tuner) Timing() bool { return t.timing }

// Begin times a message that is sent now. count is how many bytes have passed.
func (t *Tuner) Begin(now time.Duration, count uint64) { t.timing, t.since, t.from = true, now, count }

// End handles the acknowledge of the message.
func (t *Tuner) End(now time.Duration, count uint64) {
	if !t.timing {
		return
	}
	t.timing = false
	took := max(now-t.since, 1)
	if t.trip == 0 || took < t.trip {
		t.trip = took
	}
	if t.Short() {
		t.needs = [2]int{}
		return
	}
	if t.samples++; t.samples > needSamples {
		t.samples, t.needs = 1, [2]int{1: t.needs[0]}
	}
	t.needs[0] = max(t.needs[0], int(float64(count-t.from)*float64(t.trip)/float64(took)))
}

// Need returns how many bytes passed in a round trip of late; 0 on a short path. It is the most of
// the last samples, because a stream that waits for a lost packet is slow.
func (t *Tuner) Need() int { return max(t.needs[0], t.needs[1]) }

// quickSize is the size up to which a buffer that is too small becomes four times as large at once.
const quickSize = 4 << 20

// Fit returns a size for a buffer that has size bytes now and should have need: base, doubled some
// times. What passes through a buffer that is too small is less than what the path carries, so a
// small one grows by more than it seems to need. It at most doubles when it is large, so that one
// wrong sample costs little. A buffer becomes smaller if an eighth of it would do.
func Fit(base, size, need int) int {
	switch {
	case need > size && size < quickSize:
		need = min(2*need, 4*size)
	case need > size:
		need = min(need, 2*size)
	case need > size/8 && size > base:
		return size
	}
	fit := base
	for fit < need {
		fit *= 2
	}
	return fit
}
