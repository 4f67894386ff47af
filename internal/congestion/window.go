package congestion

import "time"

// initialWindow is the window of a new connection, before it has measured its path.
const initialWindow = 128 << 10

// leastPackets may always be in flight.
const leastPackets = 4

// A window bounds what is in flight. The specification leaves that to end-to-end credits,
// which count messages (IBTA 9.7.7.2) and which Linux does not use. The buffer of a
// software receiver's socket, which all connections to it share, overflows as well. So
// the congestion window follows what arrives: it grows with what is acknowledged, up to
// the port's, and halves once per round trip if packets were lost to a queue. A loss
// while round trips are at their minimum is an accident of the path and costs only the
// packet. A round that loses a large part of its packets is an overflow, whatever the
// round trips are.
type window struct {
	size      int // bytes, with overhead
	threshold int // below it the window grows by all acknowledged bytes
	part      int // of a byte of growth, in units of 1/size
	limits    Limits
	losses    losses
}

func (w *window) start(l Limits) {
	*w = window{size: l.first(), threshold: l.Window, limits: l}
}

// Sent implements Control.
func (w *window) Sent(time.Duration, int, int64) {}

// Acked implements Control.
func (w *window) Acked(now time.Duration, n int, _ time.Duration, rtt *RTT) {
	w.losses.delivered(now, n, rtt)
	if w.size >= w.threshold && w.size > 0 {
		w.part += n * w.step()
		n = w.part / w.size
		w.part -= n * w.size
	}
	w.size = min(w.size+n, w.limits.Window)
}

// step is how much the window grows in a round trip: by a packet at first, and faster
// with each round trip without a sign of a queue after several in a row. On a long path a
// window that was halved by accident, or for flows that have ended, would otherwise take
// long to reach the path's capacity again.
func (w *window) step() int {
	fast := min(int(w.losses.calm)-calmRounds, calmDoubles)
	if fast <= 0 {
		return w.limits.Packet
	}
	return max(min(w.limits.Packet<<fast, w.size/calmShare), w.limits.Packet)
}

const (
	calmRounds  = 8  // round trips without a sign of a queue, after which growth doubles with each
	calmDoubles = 12 // maximum of doublings
	calmShare   = 8  // and growth is at most this part of the window
)

// Lost implements Control.
func (w *window) Lost(now time.Duration, n int, rtt *RTT) {
	if w.losses.lost(now, n, w.limits.Packet, rtt) {
		w.shrink(w.losses.keep(rtt))
	}
}

// Notified implements Control: a mark counts as a loss (RFC 3168, 5), and all marks of a
// round trip count once.
func (w *window) Notified(now time.Duration, rtt *RTT) {
	if w.losses.once(now, rtt) {
		w.shrink(leastKeep)
	}
}

// Timeout implements Control.
func (w *window) Timeout(time.Duration) { w.shrink(leastKeep) }

// shrink keeps a part of the window. A few packets may always be in flight.
func (w *window) shrink(keep float64) {
	w.threshold = min(max(int(float64(w.size)*keep), leastPackets*w.limits.Packet), w.limits.Window)
	w.size = w.threshold
}

// Window implements Control.
func (w *window) Window() int { return w.size }

// Ready implements Control.
func (w *window) Ready(time.Duration) time.Duration { return 0 }

// Rate implements Control.
func (w *window) Rate() float64 { return 0 }

// Paces implements Control.
func (w *window) Paces() bool { return false }

// losses distinguishes overflows from accidents, one round trip at a time. The round
// before counts as well: losses are detected together, and the current round may begin
// with them.
type losses struct {
	end             time.Duration // of the round
	got, gone       int           // bytes delivered and lost in it
	oldGot, oldGone int           // and in the one before
	told            bool          // an overflow was reported in this round
	heavy           bool          // a large part was lost
	blind           bool          // round trips carry no information
	calm            uint8         // rounds in a row without a sign of a queue
}

const (
	// A loss of at least one heavyShare-th of a round, and of heavyLeast packets, is an
	// overflow.
	heavyShare = 5
	heavyLeast = 8
)

// round begins a new round when the current one is over.
func (l *losses) round(now time.Duration, rtt *RTT) {
	if now >= l.end {
		calm := min(l.calm+1, 100)
		if l.told || !rtt.Calm() {
			calm = 0
		}
		*l = losses{end: now + max(rtt.Smoothed(), 10*time.Microsecond), oldGot: l.got, oldGone: l.gone, blind: l.blind, calm: calm}
	}
}

func (l *losses) delivered(now time.Duration, n int, rtt *RTT) {
	l.round(now, rtt)
	l.got += n
}

// The part of the window that is kept after a sign of congestion: half, or more if the queue
// is short. Then the only sign is that round trips are twice the minimum, which slow ends
// cause as well, and half a window would leave the path idle.
const (
	leastKeep = .5 // from round trips of four times the minimum on
	mostKeep  = .8 // up to twice the minimum
)

// keep returns that part after losses.
func (l *losses) keep(rtt *RTT) float64 {
	if l.heavy || rtt.Least() == 0 {
		return leastKeep
	}
	long := float64(rtt.Low()) / float64(rtt.Least())
	return min(max(mostKeep-(mostKeep-leastKeep)*(long-2)/2, leastKeep), mostKeep)
}

// lost reports whether n more lost bytes are an overflow, for the first time in the
// round.
func (l *losses) lost(now time.Duration, n, packet int, rtt *RTT) bool {
	l.round(now, rtt)
	l.gone += n
	gone := l.gone + l.oldGone
	l.heavy = gone*heavyShare > l.got+l.oldGot+gone && gone > heavyLeast*packet
	if l.told || !l.heavy && (l.blind || !rtt.Queued()) {
		return false
	}
	l.tell(now, rtt)
	return true
}

// once reports true once per round.
func (l *losses) once(now time.Duration, rtt *RTT) bool {
	l.round(now, rtt)
	if l.told {
		return false
	}
	l.tell(now, rtt)
	return true
}

// tell records a sign that is acted upon. Its effect shows a round trip later.
func (l *losses) tell(now time.Duration, rtt *RTT) {
	l.told = true
	l.end = max(l.end, now+rtt.Smoothed())
}
