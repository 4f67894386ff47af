package congestion

import (
	"cmp"
	"math"
	"time"
)

// A phase is what a path's control is about to learn.
type phase uint8

const (
	startup   phase = iota // how fast the path is
	drain                  // remove the queue that the start made
	probeDown              // remove the queue that a probe made
	cruise                 // use the path, with room for others
	refill                 // fill it, before a probe
	probeUp                // whether it carries more
	probeTrip              // how long it is without a queue
	empty                  // whether it has become longer
)

// phases has the pace and the window of each phase: multiples of the path's rate, and of what
// fits into the path (draft-ietf-ccwg-bbr, 4.6).
var phases = [...]struct{ pace, window float64 }{
	startup: {2.77, 2.2}, drain: {.4, 2.2}, probeDown: {.8, 2}, cruise: {1, 2}, refill: {1, 2}, probeUp: {1.25, 2.25}, probeTrip: {1, .5}, empty: {1, 0},
}

const (
	paceMargin = .99 // of the rate, so that a queue drains
	headroom   = .15 // of what was carried, left for others, if the rest fills the path
	growShare  = 32  // of what was carried, added in the first round trip of a probe, then doubled
	keepShare  = .7  // of window and rate after a sign of congestion
	markKeep   = .85 // and of a mark

	fullGrowth = 1.25 // from round to round, while the path is not full
	fullRounds = 3

	lossThreshold = .01 // more than what the path loses anyway and a quarter of that, with a queue
	startLosses   = .1  // the same without one, at the start
	heavyLosses   = .2  // the same later
	lossPackets   = 8   // fewer lost packets say nothing
	startPackets  = 32  // the same at the start without a queue: among few packets a large part is lost by accident
	mostBase      = .3

	confirmShare = 32              // a round trip this part longer than the smallest confirms it
	tripAge      = 5 * time.Second // of an unconfirmed smallest round trip, after which it is measured
	tripTime     = 200 * time.Millisecond
	cruiseRounds = 8  // at least, and up to twice as many
	leastRate    = .5 // of the path's, until the next probe

	shrunkShare = .55 // of the path's rate: less shows another path
	farHigh     = 32  // of what fits into the path: no path has carried more in its queue

	tcpPacket      = 1500
	stubbornRounds = 24 // losses that come again within them are of flows that do not react to losses
	stoodRounds    = 6  // a queue that stays for them is of another flow

	quantumTime = time.Millisecond
	maxQuantum  = 64 << 10
	lateTimer   = 2 * time.Millisecond
)

// enter begins a phase.
func (p *path) enter(now time.Duration, f phase) {
	p.phase, p.since, p.sinceAt = f, now, p.answered()+p.flight
	switch f {
	case startup:
		p.low, p.slow, p.yield = 0, 0, yielding{}
	case drain:
		// The start measured parts of round trips. The round trip that drains the queue shows
		// the rate better.
		p.bw = [2]float64{p.best(), 0}
	case probeDown:
		p.told = now + 2*max(p.least, p.lastLow()) // what is found lost until then left earlier
		if p.bw[1] > p.bw[0]/2 {
			p.bw = [2]float64{p.bw[1], 0}
		}
	case cruise:
		p.leastLoss = 1
		// Flows that probe at the same time would learn nothing, so the time depends on
		// what a flow has delivered.
		p.cruise = max(p.cruise, uint16(cruiseRounds+uint64(p.delivered)*0x9e3779b97f4a7c15>>61))
	case refill:
		p.low, p.yield = 0, yielding{}
		if p.leastLoss < 1 {
			p.learned = true
			p.base = min((p.base+p.leastLoss)/2, p.leastLoss) // slowly up, at once down
		}
	case probeUp:
		p.grow = max(p.high/growShare, float64(p.limits.Packet))
	case empty:
		p.far, p.alone = 0, alone{next: now + tripAge}
	}
}

// roundEnds learns from a round trip that is over.
func (p *path) roundEnds(now time.Duration, limited bool) {
	p.congested(now)
	r := &p.round
	got, gone := p.delivered-r.delivered, p.lost-r.lost
	if all := got + gone; all >= lossPackets*int64(p.limits.Packet) && p.phase == cruise && now > p.told+p.least {
		p.leastLoss = min(p.leastLoss, float64(gone)/float64(all))
	}
	if p.phase == startup && !limited && now-r.began >= p.least {
		p.checkFull()
	}
	if p.far = min(p.far+1, farRounds); p.lastLow() <= farFactor*p.least {
		p.far = 0
	}
	if p.phase == cruise {
		p.stood++
		if !p.queued() {
			p.stood = 0
		}
	}
	if p.phase == cruise {
		p.cruise = max(p.cruise, 1) - 1
		if p.slow > 0 {
			p.slow = max(p.slow, p.yield.rate(now))
		}
	}
	if p.phase == probeUp && p.high > 0 && (float64(p.flight) > .9*p.high || p.idles(now, 2)) {
		p.high += p.grow
		p.grow *= 2
	}
	*r = round{end: p.answered() + p.flight, delivered: p.delivered, lost: p.lost, began: now, lastLow: r.low, lastRate: r.rate, count: r.count + 1}
}

// checkFull notes whether the rate still grows.
func (p *path) checkFull() {
	if bw := p.best(); bw >= p.full*fullGrowth {
		p.full, p.fullCount = bw, 0
		return
	}
	p.fullCount++
}

// queued reports whether all round trips of the round are long: there is a queue.
func (p *path) queued() bool { return p.lastLow() > p.least+max(p.least/16, LongTrip/2) }

// idles reports whether the phase has lasted for more than some round trips and there is no queue: a probe has room to grow.
func (p *path) idles(now time.Duration, trips time.Duration) bool {
	return now-p.since > trips*p.least && !p.queued()
}

// lastLow is the smallest round trip of the round, or of the one before.
func (p *path) lastLow() time.Duration { return cmp.Or(p.round.low, p.round.lastLow) }

// congested acts on the losses of this round trip, if they are more than the path's own.
func (p *path) congested(now time.Duration) {
	got, gone := float64(p.delivered-p.round.delivered), float64(p.lost-p.round.lost)
	if gone < lossPackets*float64(p.limits.Packet) || now < p.told || got+gone < p.fill()/4 || p.phase == empty ||
		p.phase == cruise && p.base > lossThreshold && p.round.began < p.told {
		return // too few, or some of them left earlier
	}
	excess := gone/(got+gone) - p.base
	least := heavyLosses
	switch {
	case p.queued():
		least = lossThreshold + p.base/4
	case p.phase == startup:
		if gone < startPackets*float64(p.limits.Packet) {
			return
		}
		least = startLosses
	}
	if excess < least {
		return
	}
	p.told = now + p.least
	switch p.phase {
	case startup:
		p.high = max(p.fill(), got)
		p.enter(now, drain)
	case probeUp:
		p.high = max(float64(p.flight), p.fill()*keepShare)
		if p.stood >= stoodRounds {
			p.giveWay(now)
		}
		p.enter(now, probeDown)
	default:
		p.giveWay(now)
	}
}

// giveWay leaves a part of the rate to other flows, which may take a loss as a sign to send less as well. They
// need some time until they send as much as before, and no probe may disturb them. Losses that come again
// soon are of flows that do not react to them, so this one takes its rate back.
func (p *path) giveWay(now time.Duration) {
	before := p.yielded
	p.yielded = p.round.count
	if before > 0 && p.round.count-before < stubbornRounds {
		p.slow, p.low, p.yield = 0, 0, yielding{}
		p.shrunk()
		p.cruise = min(p.cruise, cruiseRounds)
		return
	}
	takes := p.recovers()
	if !p.learned { // these may be losses of the path: as long as between probes
		takes = 3 * cruiseRounds / 2 * p.least
	}
	p.lower(keepShare)
	p.yield = yielding{until: now + takes, takes: takes, top: p.slow / keepShare}
}

// shrunk makes the rate what arrives after a loss if that is not much more than half of it: the path itself carries less
// than before. If it carries far less, what was in flight on it is of no use either.
func (p *path) shrunk() {
	if p.round.rate >= p.best()*shrunkShare {
		return
	}
	p.bw = [2]float64{0, p.round.rate}
	if fill := max(p.fill(), float64(leastPackets*p.limits.Packet)); p.high > farHigh*fill {
		p.high = phases[cruise].window * fill
	}
}

// A yielding is how the rate rises again after a loss that others may have seen as well: as the window of cubic does
// (RFC 9438, 4.2), quickly at first and slowly up to the rate at which the loss came.
type yielding struct {
	until, takes time.Duration
	top          float64
}

// rate returns the rate, 0 after the end.
func (y *yielding) rate(now time.Duration) float64 {
	if now >= y.until {
		return 0
	}
	left := (y.until - now).Seconds() / y.takes.Seconds()
	return y.top * (1 - (1-keepShare)*left*left*left)
}

// recovers returns the time that a flow of TCP as fast as this one needs after a loss to send as much as
// before: a round trip for two packets of its window (RFC 5681, 3.1), or less if it has cubic.
func (p *path) recovers() time.Duration {
	packets := p.fill() / tcpPacket
	cubic := math.Cbrt(packets * (1 - .7) / .4)
	return time.Duration(max(min(packets/2*p.least.Seconds(), cubic), cruiseRounds*p.least.Seconds()) * float64(time.Second))
}

// slowDown acts on a mark.
func (p *path) slowDown(now time.Duration) {
	if now < p.told || p.best() == 0 {
		return
	}
	p.told = now + p.least
	switch p.phase {
	case startup:
		p.enter(now, drain)
	case probeUp:
		p.enter(now, probeDown)
	default:
		p.lower(markKeep)
	}
}

// lower bounds rate and window until the next probe. The rate falls below what was just delivered, unlike
// that of BBR: the rest is for flows that take losses as a sign to send less.
func (p *path) lower(keep float64) {
	if p.slow == 0 {
		p.slow = p.best()
	}
	got := cmp.Or(max(p.round.rate, p.round.lastRate), p.slow)
	p.slow = max(min(p.slow, got)*keep, min(p.best()*leastRate, got))
	if p.low == 0 {
		p.low = float64(p.Window())
	}
	p.low = max(p.fill(), p.low*keep)
}

// regain follows a probe without a sign of congestion: what was left to others is free again.
func (p *path) regain() {
	got := cmp.Or(max(p.round.rate, p.round.lastRate), p.slow)
	if p.slow = min(p.slow, got) * phases[probeUp].pace; p.slow >= p.best() {
		p.slow = 0
	}
}

// resume continues where the measurement of a round trip began.
func (p *path) resume(now time.Duration) {
	if now < p.yield.until {
		p.enter(now, cruise)
		return
	}
	p.enter(now, refill)
}

// step moves to the next phase when the present one has shown what it is to show. A round trip
// ended now if ended is set.
func (p *path) step(now time.Duration, ended bool) {
	lasted := p.answered() >= p.sinceAt // one round trip
	if p.mayEmpty(now) {
		p.enter(now, empty)
	}
	switch p.phase {
	case startup:
		if p.fullCount >= fullRounds {
			p.enter(now, drain)
		}
	case drain:
		if float64(p.flight) <= p.fill() {
			p.enter(now, probeDown)
		}
	case probeDown:
		if float64(p.flight) <= p.fill() || lasted && now-p.since > 4*p.least {
			p.enter(now, cruise)
		}
	case cruise:
		if p.cruise == 0 && now >= p.yield.until {
			p.enter(now, refill)
		}
	case refill:
		if lasted && ended {
			p.enter(now, probeUp)
		}
	case probeUp:
		if lasted && float64(p.flight) >= phases[probeUp].pace*p.fill() || now-p.since > 3*p.least && p.queued() || p.slow > 0 && p.idles(now, 3) {
			p.regain()
			p.enter(now, probeDown)
		}
	case probeTrip:
		if now-p.since > max(tripTime, p.least) && lasted {
			p.seenAt = now
			p.resume(now)
		}
		return
	case empty: // see emptied
		return
	}
	if p.phase != startup && now-p.seenAt > tripAge {
		p.enter(now, probeTrip)
	}
}
