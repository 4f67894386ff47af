package congestion

import "time"

// LongTrip is the round trip from which on a path is modelled by default. On a shorter one a
// process that waits for its processor takes longer than the packets.
const LongTrip = time.Millisecond

// shortTrip is the round trip up to which a path that is modelled becomes short. Between both the choice
// stays, since each start of a model fills a queue.
const shortTrip = LongTrip * 3 / 4

// path models a path with a queue of its own, in the manner of BBR version 3
// (draft-ietf-ccwg-bbr): the largest rate that was delivered and the smallest round trip say
// how much fits into the path, packets leave at that rate, and the flow probes from time to time
// whether the path carries more. It differs where a process or a path with accidental losses
// needs it:
//
//   - A loss counts as congestion only if round trips show a queue, or if many more are lost than
//     the path loses without one. BBR takes more than 2 % as congestion.
//   - What the path loses anyway is sent in addition to its rate.
//   - The start measures parts of a round trip, and so takes fewer of them.
type path struct {
	pacer
	delivery
	limits Limits

	phase   phase
	since   time.Duration // when the phase began
	sinceAt int64         // position at that time
	cruise  uint16        // round trips until the next probe

	bw     [2]float64 // largest rate of the cycle before, and of this one
	least  time.Duration
	seenAt time.Duration // when least was last confirmed
	base   float64       // part of the packets that the path loses without a queue

	leastLoss float64 // smallest part of a sample's packets that were lost, since the cruise began
	sample    lossSample

	round round

	full      float64 // largest rate when the pipe was last seen growing
	fullCount uint8

	// Bounds of what is in flight, 0 if there is none: high is what the path has carried without
	// losses, low is what it carries now, until the next probe.
	high, low float64
	grow      float64 // of high, in the next round trip of a probe
	slow      float64 // the rate that belongs to low; 0 if there is none
	yield     yielding
	learned   bool // base is known
	rivals
	usual float64 // rate before the probe
	standing
	told    time.Duration // signs of congestion before this time are known
	shorter time.Duration // until then what arrives was sent on a path that was longer: too much at a time
	silent  bool          // a timeout expired, and nothing was acknowledged since
	far     uint8         // round trips in a row that are too long for a queue of this flow
	alone   alone
}

// rivals is what is known of others on the path.
type rivals struct {
	yielded  uint32 // number of the round trip in which others were left room last
	resisted uint32 // number of the round trip in which the queue stayed although this flow gave way last
	alike    uint8  // times in a row that it did
	stubborn bool   // others do not react to losses
}

// standing counts round trips between probes.
type standing struct {
	stood uint16        // that all had a queue
	clear uint16        // that had none
	noise time.Duration // mean difference between the smallest round trips of two that follow each other
}

// A lossSample is what arrived and was lost in some round trips, in bytes.
type lossSample struct{ got, gone int64 }

// A round is what happened in the current round trip.
type round struct {
	boundary
	before         boundary      // when the one before began
	end            int64         // position that ends it
	lost           int64         // when it began
	low            time.Duration // smallest round trip in it; 0 if there is none
	lastLow        time.Duration // of the one before
	rate, lastRate float64       // largest rate in it, and in the one before
	count          uint32
}

// A boundary is what was known when a round began.
type boundary struct {
	delivered int64
	began     time.Duration
	sent      time.Duration // when the packet had left that was answered then
	limited   bool          // the path may have carried more in the round before
}

func newPath(l Limits) *path {
	p := &path{limits: l}
	p.limits.Window = max(l.Window, l.Long)
	return p
}

// begin makes the model of a path that carries size bytes in flight.
func (p *path) begin(now time.Duration, size int, trip time.Duration) {
	p.least, p.seenAt = trip, now
	p.bw[1] = float64(size) / trip.Seconds()
	p.full = p.bw[1]
	p.round.began = now
	p.enter(now, startup)
}

// Sent implements Control.
func (p *path) Sent(now time.Duration, n int, flight int64) {
	if p.rate > 0 && p.free < now-p.slack() && flight < int64(p.Window())*3/4 {
		p.limited = p.answered() + flight // a packet could have left earlier
	}
	if flight <= int64(n) {
		p.free = min(p.free, now) // what has arrived has left, whatever the rate was
	}
	p.sent(now, n, flight, int64(max(p.Window()/(maxMarks-4), p.limits.Packet)))
	if p.rate > 0 {
		p.pass(now, n, p.slack())
	}
}

// Acked implements Control.
func (p *path) Acked(now time.Duration, n int, sample time.Duration, rtt *RTT) {
	p.silent = false
	if sample > 0 {
		p.tripTook(now, sample)
		if p.phase == empty && p.alone.took(now, sample, p.since) {
			p.emptied(now, rtt)
		}
	}
	if p.least == 0 {
		return
	}
	if p.bw == [2]float64{} {
		p.begin(now, p.Window(), p.least)
	}
	s, start := p.acked(now, n, p.least)
	p.round.rate = max(p.round.rate, s.rate)
	if p.phase == startup && start.rate > s.rate {
		s = start
	}
	if p.phase == startup && !s.limited || s.rate > p.best() && (p.phase == startup || now >= p.shorter && s.rate > surge*p.best()) {
		p.bw[1] = max(p.bw[1], s.rate)
	}
	p.flight = max(p.flight-int64(n), 0)
	ended := p.answered() >= p.round.end
	if ended {
		p.roundEnds(now, s.limited)
	}
	p.step(now, ended)
	p.pace()
}

// tripTook notes a round trip.
func (p *path) tripTook(now, sample time.Duration) {
	if p.round.low == 0 || sample < p.round.low {
		p.round.low = sample
	}
	if sample < p.least/2 {
		p.shorter = now + p.least + 2*sample
	}
	if p.least == 0 || sample < p.least || p.phase == probeTrip && now-p.seenAt > tripAge {
		p.least, p.seenAt = sample, now
	}
	if sample <= p.least+p.least/confirmShare {
		p.seenAt = now
	}
}

// Lost implements Control.
func (p *path) Lost(now time.Duration, n int, _ *RTT) {
	p.lost += int64(n)
	p.flight = max(p.flight-int64(n), 0)
	if p.phase == startup || p.phase == probeUp {
		p.congested(now)
	}
}

// Timeout implements Control: nothing is known of what was in flight.
func (p *path) Timeout(time.Duration) {
	p.forget()
	p.silent = true
}

// Notified implements Control.
func (p *path) Notified(now time.Duration, _ *RTT) { p.slowDown(now) }

// best is the rate of the path, in bytes per second.
func (p *path) best() float64 { return max(p.bw[0], p.bw[1]) }

// fill is what fits into the path, in bytes (the bandwidth-delay product).
func (p *path) fill() float64 {
	bw := p.best()
	if p.slow > 0 {
		bw = min(bw, p.slow)
	}
	return bw * p.least.Seconds()
}

// pace sets the rate for the phase.
func (p *path) pace() {
	bw := p.best()
	if p.slow > 0 && p.phase != startup {
		bw = min(bw, p.slow)
	}
	gain := phases[p.phase].pace
	if p.phase == cruise && p.yield.takes == 0 {
		gain -= easeShare * float64(min(p.stood, stoodRounds))
	}
	p.rate = max(bw*gain*paceMargin/(1-min(p.base, mostBase)), float64(p.limits.Packet))
}

// Window implements Control.
func (p *path) Window() int {
	if p.silent || p.phase == empty {
		return min(leastPackets*p.limits.Packet, p.limits.Window)
	}
	if p.best() == 0 || p.least == 0 {
		return min(initialWindow, p.limits.Window)
	}
	most := phases[p.phase].window*p.fill() + 3*float64(p.quantum())
	if p.high > 0 && p.phase != startup {
		high := p.high
		if p.phase != probeUp && p.phase != refill {
			high = max(high*(1-headroom), min(high, p.fill()))
		}
		most = min(most, high)
	}
	if p.low > 0 {
		most = min(most, p.low)
	}
	return int(min(max(most, float64(leastPackets*p.limits.Packet)), float64(p.limits.Window)))
}

// quantum is how many bytes leave at once.
func (p *path) quantum() int {
	return min(max(int(p.rate*quantumTime.Seconds()), 2*p.limits.Packet), maxQuantum)
}

// slack is how late a packet may leave without losing its place: a timer may be late.
func (p *path) slack() time.Duration {
	return p.took(p.quantum()) + min(lateTimer, p.least/16)
}

// Ready implements Control.
func (p *path) Ready(now time.Duration) time.Duration {
	if p.rate == 0 || p.flight == 0 {
		return now
	}
	return p.ready(now, p.took(p.quantum()), p.limits.Packet)
}

// Paces implements Control.
func (p *path) Paces() bool { return true }
