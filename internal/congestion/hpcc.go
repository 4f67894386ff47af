package congestion

import "time"

// The parameters of HPCC, as published (SIGCOMM 2019).
const (
	hpccUse    = 0.95 // of each link: eta
	hpccStages = 5    // increases by a step before the window is set by the measured use again
	hpccFlows  = 100  // for which a step leaves room
)

// A Hop is what a switch says of the link by which a packet left it: in-band telemetry.
type Hop struct {
	At    time.Duration // when the packet left, by the clock of the switch
	Sent  uint64        // bytes that the link has carried
	Queue int           // bytes that waited
	Rate  float64       // bytes per second of the link
}

// An Informed control takes telemetry.
type Informed interface {
	Control
	// Telemetry takes what the switches of the path said of a packet, the first one first. The packet
	// is the next one that Acked counts. The control does not keep hops.
	Telemetry(now time.Duration, hops []Hop, rtt *RTT)
	// Uninformed returns after how many acknowledged bytes without telemetry the control does without, and
	// how many there were when it did, which it does now; found is 0 if it does not.
	Uninformed() (expected, found int64)
}

// hpcc sets the window by the use of the busiest link of the path: what is in flight on it, and what
// waits in front of it. If no telemetry comes, as the peer does not know it or the switches give none,
// it is a plain window.
type hpcc struct {
	limits Limits
	pacer
	size float64 // bytes: W
	base float64 // Wc, from which the window is computed during a round trip
	use  float64 // U, as a moving mean
	step float64 // bytes: W_AI
	trip time.Duration

	stage    uint8
	known    bool
	position int64 // bytes acknowledged
	next     int64 // the base changes when this position is acknowledged
	flight   int64
	hops     [MaxHops]Hop
	count    int

	silent int64  // bytes acknowledged since the last telemetry, until alone
	bound  int64  // of silent, from which on the control was alone
	alone  bool   // no telemetry comes
	plain  window // decides then
}

// No telemetry comes if so many windows and packets were acknowledged without any.
const (
	silentWindows = 4
	silentPackets = 64
)

// MaxHops is the largest number of switches of a path of which telemetry speaks, as in the header of
// the paper.
const MaxHops = 5

func newHPCC(l Limits) *hpcc {
	h := &hpcc{limits: l, use: 1, size: float64(l.first())}
	h.base = h.size
	return h
}

// Telemetry implements Informed.
func (h *hpcc) Telemetry(now time.Duration, hops []Hop, rtt *RTT) {
	h.trip = h.limits.least(rtt)
	hops = hops[:min(len(hops), MaxHops)]
	if len(hops) == 0 {
		return
	}
	if h.alone, h.silent = false, 0; h.trip == 0 {
		return
	}
	if !h.known || h.moved(hops) {
		h.begin(hops)
		h.pace()
		return
	}
	use, took := h.measure(hops)
	if took > 0 {
		took = min(took, h.trip)
		part := took.Seconds() / h.trip.Seconds()
		h.use = (1-part)*h.use + part*use
		h.change(h.position >= h.next)
	}
	copy(h.hops[:], hops)
	h.pace()
}

// countSlack is the bytes that a switch may count early, because it counts a frame as that begins to leave.
const countSlack = 64 << 10

// moved reports whether the path has changed: it has another number of switches, or one of them has carried
// less than before, or more than its link can have carried since.
func (h *hpcc) moved(hops []Hop) bool {
	if h.count != len(hops) {
		return true
	}
	for i := range hops {
		a, b := &h.hops[i], &hops[i]
		if t := b.At - a.At; t > 0 && (b.Sent < a.Sent || float64(b.Sent-a.Sent) > 2*b.Rate*t.Seconds()+countSlack) {
			return true
		}
	}
	return false
}

// pace spreads the window over a round trip.
func (h *hpcc) pace() { h.rate = min(max(h.size/h.trip.Seconds(), slowest), fastest) }

// begin takes the first telemetry of a path: the window is what its slowest link carries in a round
// trip, as for the adapter's link in the paper, and a step leaves the unused part of it to hpccFlows.
func (h *hpcc) begin(hops []Hop) {
	h.known, h.count = true, copy(h.hops[:], hops)
	slowest := hops[0].Rate
	for _, k := range hops {
		slowest = min(slowest, k.Rate)
	}
	fits := slowest * h.trip.Seconds()
	h.step = fits * (1 - hpccUse) / hpccFlows
	h.set(fits)
	h.base, h.use, h.stage, h.next = h.size, 1, 0, h.position+h.flight
}

// measure returns the use of the busiest link since the last telemetry, and the time for which it was
// measured.
func (h *hpcc) measure(hops []Hop) (use float64, took time.Duration) {
	for i := range hops {
		a, b := &h.hops[i], &hops[i]
		t := b.At - a.At
		if t <= 0 || b.Rate <= 0 {
			continue // an older packet
		}
		sent := float64(b.Sent-a.Sent) / t.Seconds()
		if u := float64(min(a.Queue, b.Queue))/(b.Rate*h.trip.Seconds()) + sent/b.Rate; u > use {
			use, took = u, t
		}
	}
	return use, took
}

// change computes the window. Once in a round trip the new window becomes the base.
func (h *hpcc) change(update bool) {
	over := h.use >= hpccUse || h.stage >= hpccStages
	if over {
		h.set(h.base*hpccUse/h.use + h.step)
	} else {
		h.set(h.base + h.step)
	}
	if !update {
		return
	}
	if h.stage++; over {
		h.stage = 0
	}
	h.base = h.size
	h.next = h.position + h.flight
}

func (h *hpcc) set(v float64) {
	h.size = min(max(v, float64(h.limits.Packet)), float64(h.limits.Window))
}

// Sent implements Control.
func (h *hpcc) Sent(now time.Duration, n int, flight int64) {
	if h.flight = flight; h.rate > 0 {
		h.pass(now, n, 2*h.quantum())
	}
}

// quantum returns the duration of the data that is sent at once: at least one packet.
func (h *hpcc) quantum() time.Duration { return max(h.limits.quantum(), h.took(h.limits.Packet)) }

// Acked implements Control.
func (h *hpcc) Acked(now time.Duration, n int, sample time.Duration, rtt *RTT) {
	h.position += int64(n)
	h.flight = max(h.flight-int64(n), 0)
	if h.alone {
		h.plain.Acked(now, n, sample, rtt)
		h.follow()
		return
	}
	bound := max(silentWindows*int64(h.size), silentPackets*int64(h.limits.Packet))
	if h.silent += int64(n); h.silent > bound {
		h.alone, h.bound, h.known, h.rate = true, bound, false, 0
		h.plain.start(h.limits)
		h.plain.size = int(h.size)
	}
}

// Uninformed implements Informed.
func (h *hpcc) Uninformed() (expected, found int64) {
	if !h.alone {
		return 0, 0
	}
	return h.bound, h.silent
}

// follow takes the size of the plain window.
func (h *hpcc) follow() {
	h.size = float64(h.plain.size)
	h.base = h.size
}

// Lost implements Control. The network of the paper loses nothing by a queue: telemetry tells first.
func (h *hpcc) Lost(now time.Duration, n int, rtt *RTT) {
	h.flight = max(h.flight-int64(n), 0)
	if h.alone {
		h.plain.Lost(now, n, rtt)
		h.follow()
	}
}

// Timeout implements Control.
func (h *hpcc) Timeout(now time.Duration) {
	if h.alone {
		h.plain.Timeout(now)
		h.follow()
		return
	}
	h.set(h.size / 2)
	h.base = h.size
}

// Notified implements Control.
func (h *hpcc) Notified(now time.Duration, rtt *RTT) {
	if h.alone {
		h.plain.Notified(now, rtt)
		h.follow()
	}
}

// Window implements Control.
func (h *hpcc) Window() int { return int(h.size) }

// Ready implements Control.
func (h *hpcc) Ready(now time.Duration) time.Duration {
	if h.rate == 0 {
		return now
	}
	return h.ready(now, h.quantum(), h.limits.Packet)
}

// Paces implements Control.
func (*hpcc) Paces() bool { return true }
