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

	lossThreshold = .01  // more than what the path loses anyway and a quarter of that, with a queue
	startLosses   = .1   // the same without one, at the start
	heavyLosses   = .2   // the same later
	lossPackets   = 8    // fewer lost packets say nothing
	samplePackets = 4096 // of which the lost ones show what the path loses
	firstSample   = 4    // the first sample has a quarter of them, because signs depend on it
	chance        = 3    // standard deviations of what the path loses that are not a sign
	startPackets  = 32   // the same at the start without a queue: among few packets a large part is lost by accident
	mostBase      = .3

	confirmShare = 32              // a round trip this part longer than the smallest confirms it
	tripAge      = 5 * time.Second // of an unconfirmed smallest round trip, after which it is measured
	tripTime     = 200 * time.Millisecond
	cruiseRounds = 8  // at least, and up to twice as many
	leastRate    = .5 // of the path's, until the next probe

	shrunkShare = .55 // of the path's rate: less shows another path
	farHigh     = 32  // of what fits into the path: no path has carried more in its queue

	surge      = 1.06 // a rate in a round trip that is this much above the path's shows another path; what is less may be noise
	easeShare  = .015 // of the pace, left out for each round trip with a queue: the queue goes if the rate was measured too large
	noiseShare = 2    // of the noise of round trips, by which those are longer that show a queue

	tcpPacket      = 1500
	stoodRounds    = 3  // a queue that stays for them is of another flow
	clearRounds    = 8  // without a queue, after which what is in flight grows twice as fast
	stubbornRounds = 24 // losses that come again within them are of flows that still do not react to losses

	evenShare    = .5     // of the path's rate: a flow that has more leaves more to others
	sharing      = .8     // of what it has more, multiplied by what is in flight, is left to them for good
	emptyShare   = .95    // of what fits into the path, in flight without a queue: there are no others
	settleTrips  = 1.5    // round trips after which a loss is another one
	early        = 1. / 3 // of the time until what is in flight is as before: others that lost packets as well do not fill the queue again
	resistRounds = 1000   // after resistance without leaving others more than cubic does
	judgeRounds  = 8      // in which the queue shows whether others have given way
	alikeTimes   = 2      // losses after which they have not: they do not react
	againLosses  = 3      // round trips with losses within it show flows that do not react to losses

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
		p.told = now + 2*max(p.least, p.lastLow())
		// The start measured parts of round trips. The round trip that drains the queue shows
		// the rate better.
		p.bw = [2]float64{p.best(), 0}
	case probeDown:
		p.told = now + 2*max(p.least, p.lastLow()) // what is found lost until then left earlier
		if p.bw[1] > p.bw[0]/2 {
			p.bw = [2]float64{p.bw[1], 0}
		}
	case cruise:
		p.leastLoss, p.clear = 1, 0
		// Flows that probe at the same time would learn nothing, so the time depends on
		// what a flow has delivered.
		p.cruise = max(p.cruise, uint16(cruiseRounds+uint64(p.delivered)*0x9e3779b97f4a7c15>>61))
	case refill:
		p.low, p.yield = 0, yielding{}
		if p.leastLoss < 1 {
			p.base = (p.base + p.leastLoss) / 2
		}
	case probeUp:
		p.usual = p.round.lastRate
		p.grow = max(p.high/growShare, float64(p.limits.Packet))
	case empty:
		p.far, p.alone = 0, alone{next: now + tripAge}
	}
}

// roundEnds learns from a round trip that is over.
func (p *path) roundEnds(now time.Duration, limited bool) {
	p.congested(now)
	r := &p.round
	if got, gone := p.delivered-r.delivered, p.lost-r.lost; p.phase == cruise && now > p.told+p.least {
		p.learn(got, gone)
	}
	if p.phase == startup && !limited && now-r.began >= p.least {
		p.checkFull()
	}
	if p.far = min(p.far+1, farRounds); p.lastLow() <= farFactor*p.least {
		p.far = 0
	}
	if p.phase == cruise {
		p.stand(r)
		p.cruise = max(p.cruise, 1) - 1
		if p.yield.takes > 0 {
			p.bound(now)
			p.judge(now)
		}
	}
	if p.phase == probeUp && p.high > 0 && (float64(p.flight) > .9*p.high || p.idles(now, 2)) {
		p.high += p.grow
		p.grow *= 2
	}
	p.measure(now, limited)
	*r = round{
		boundary: boundary{p.delivered, now, p.sentAt, limited}, before: r.boundary,
		end: p.answered() + p.flight, lost: p.lost, lastLow: r.low, lastRate: r.rate, count: r.count + 1,
	}
}

// measure takes the rate of the last two round trips. Acknowledges that come together make some shorter samples too large,
// and the largest of many would be the path's rate.
func (p *path) measure(now time.Duration, limited bool) {
	from := p.round.before
	took := max(now-from.began, p.sentAt-from.sent)
	if p.phase == startup || from.began == 0 || now < p.shorter || took < p.least {
		return
	}
	if rate := float64(p.delivered-from.delivered) / took.Seconds(); !limited && !p.round.limited || rate > p.best() {
		p.bw[1] = max(p.bw[1], rate)
	}
}

// stand counts a round trip between probes that had a queue, or had none.
func (p *path) stand(r *round) {
	if r.began > p.since+p.least && r.low > 0 {
		p.noise += (max(r.low-r.lastLow, r.lastLow-r.low) - p.noise) / 8
	}
	p.stood++
	p.clear++
	if p.queued() {
		p.clear = 0
	} else {
		p.stood = 0
	}
}

// learn counts what arrived and was lost in a round trip between probes. What the path loses without a queue is the
// smallest part of some packets, as few show only chance. It falls at once, and rises slowly (see refill).
func (p *path) learn(got, gone int64) {
	p.sample.got, p.sample.gone = p.sample.got+got, p.sample.gone+gone
	all, enough := p.sample.got+p.sample.gone, int64(samplePackets*p.limits.Packet)
	if !p.learned {
		enough /= firstSample
	}
	if all < enough {
		return
	}
	lost := float64(p.sample.gone) / float64(all)
	p.sample = lossSample{}
	p.leastLoss = min(p.leastLoss, lost)
	if lost < p.base || !p.learned {
		p.learned, p.base = true, lost
	}
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
func (p *path) queued() bool {
	return p.lastLow() > p.least+max(p.least/16, LongTrip/2)+noiseShare*p.noise
}

// stands reports whether there is a queue that this flow has not just made by what it was given to send at once.
func (p *path) stands() bool {
	return p.queued() && (p.phase == startup || p.phase == probeUp || p.stood >= stoodRounds)
}

// idles reports whether the phase has lasted for more than some round trips and there is no queue: a probe has room to grow.
func (p *path) idles(now time.Duration, trips time.Duration) bool {
	return now-p.since > trips*p.least && !p.queued()
}

// lastLow is the smallest round trip of the round, or of the one before.
func (p *path) lastLow() time.Duration { return cmp.Or(p.round.low, p.round.lastLow) }

// congested acts on the losses of this round trip, if they are more than the path's own.
func (p *path) congested(now time.Duration) {
	got, gone := float64(p.delivered-p.round.delivered), float64(p.lost-p.round.lost)
	if now < p.told || got+gone < p.fill()/4 || p.phase == empty || gone == 0 ||
		p.phase == cruise && p.round.began < p.told && p.base > lossThreshold ||
		p.yield.takes > 0 && p.round.began < p.yield.settled && p.round.rate >= p.best()*shrunkShare {
		return // too few, or some of them left earlier
	}
	if p.yield.takes > 0 && p.phase == cruise && p.base == 0 && p.queued() {
		p.giveWay(now) // others take one loss as a sign
		return
	}
	if gone < lossPackets*float64(p.limits.Packet) {
		return
	}
	excess := gone/(got+gone) - p.base
	least := heavyLosses
	switch {
	case p.stands():
		least = lossThreshold + p.base/4 + chance*math.Sqrt(p.base*float64(p.limits.Packet)/(got+gone))
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
		p.yield = yielding{} // marks show what others do
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
	if p.slow = max(p.slow, min(p.slow, got)*phases[probeUp].pace); p.slow >= p.best() {
		p.slow = 0
	}
}

// resume continues where the measurement of a round trip began.
func (p *path) resume(now time.Duration) {
	if p.yield.takes > 0 {
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
		if p.yield.takes > 0 || float64(p.flight) <= p.fill() || lasted && now-p.since > 4*p.least {
			p.enter(now, cruise)
		}
	case cruise:
		if p.cruise == 0 && !p.yields() {
			p.enter(now, refill)
		}
	case refill:
		switch {
		case p.low > 0: // since there was a sign of congestion: a probe could not grow, and would not end
			p.enter(now, cruise)
		case lasted && ended:
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
			p.yield.settled = max(p.yield.settled, now+p.lastLow())
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
