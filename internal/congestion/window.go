package congestion

import "time"

// initialWindow is what a new connection sends before it knows its peer.
const initialWindow = 128 << 10

// leastPackets may be in flight whatever was lost.
const leastPackets = 4

// A window bounds what is in flight. The specification leaves that to
// end-to-end credits, which count messages (IBTA 9.7.7.2) and which neither
// Linux nor softrdma uses; what a software receiver runs out of is the buffer
// of its socket, which all connections to it share. So the window follows what
// arrives: it grows with what is acknowledged, up to the port's, and halves
// once a round trip where packets were lost to a queue. A loss while round
// trips are as short as ever is an accident of the path, and costs nothing but
// the packet; a round that loses a large part of its packets is an overflow
// whatever the round trips say.
type window struct {
	size      int // bytes, with overhead
	threshold int // below it the window grows by all that is acknowledged
	part      int // of a byte of growth, in units of 1/size
	limits    Limits
	losses    losses
}

func (w *window) start(l Limits) {
	*w = window{size: min(initialWindow, l.Window), threshold: l.Window, limits: l}
}

// Sent implements Control.
func (w *window) Sent(time.Duration, int) {}

// Acked implements Control.
func (w *window) Acked(now time.Duration, n int, _ time.Duration, rtt *RTT) {
	w.losses.delivered(now, n, rtt)
	if w.size >= w.threshold && w.size > 0 {
		w.part += n * w.limits.Packet
		n = w.part / w.size // one packet for each window
		w.part -= n * w.size
	}
	w.size = min(w.size+n, w.limits.Window)
}

// Lost implements Control.
func (w *window) Lost(now time.Duration, n int, rtt *RTT) {
	if w.losses.lost(now, n, w.limits.Packet, rtt) {
		w.shrink()
	}
}

// Notified implements Control: a mark stands for a loss (RFC 3168, 5), and all
// marks of a round trip for one.
func (w *window) Notified(now time.Duration, rtt *RTT) {
	if w.losses.once(now, rtt) {
		w.shrink()
	}
}

// Timeout implements Control.
func (w *window) Timeout(time.Duration) { w.shrink() }

// shrink halves the window. A few packets may always be in flight.
func (w *window) shrink() {
	w.threshold = min(max(w.size/2, leastPackets*w.limits.Packet), w.limits.Window)
	w.size = w.threshold
}

// Window implements Control.
func (w *window) Window() int { return w.size }

// Ready implements Control.
func (w *window) Ready(time.Duration) time.Duration { return 0 }

// Rate implements Control.
func (w *window) Rate() float64 { return 0 }

// losses tells overflows from accidents, a round trip at a time. The round
// before counts as well: losses are found together, and the present round may
// begin with them.
type losses struct {
	end             time.Duration // of the round
	got, gone       int           // bytes delivered and lost in it
	oldGot, oldGone int           // and in the one before
	told            bool          // of an overflow in this round
	blind           bool          // round trips tell nothing
}

const (
	// heavyShare is the part of a round, one in so many, whose loss is an
	// overflow, and heavyLeast how many packets that must be.
	heavyShare = 5
	heavyLeast = 8
)

// round begins a new round when the present one is over.
func (l *losses) round(now time.Duration, rtt *RTT) {
	if now >= l.end {
		*l = losses{end: now + max(rtt.Smoothed(), 10*time.Microsecond), oldGot: l.got, oldGone: l.gone, blind: l.blind}
	}
}

func (l *losses) delivered(now time.Duration, n int, rtt *RTT) {
	l.round(now, rtt)
	l.got += n
}

// lost tells whether n more bytes lost are, for the first time in the round,
// an overflow.
func (l *losses) lost(now time.Duration, n, packet int, rtt *RTT) bool {
	l.round(now, rtt)
	l.gone += n
	gone := l.gone + l.oldGone
	heavy := gone*heavyShare > l.got+l.oldGot+gone && gone > heavyLeast*packet
	if l.told || !heavy && (l.blind || !rtt.Queued()) {
		return false
	}
	l.told = true
	return true
}

// once tells true once in a round.
func (l *losses) once(now time.Duration, rtt *RTT) bool {
	l.round(now, rtt)
	if l.told {
		return false
	}
	l.told = true
	return true
}
