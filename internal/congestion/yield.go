package congestion

import (
	"cmp"
	"math"
	"time"
)

// A yielding is how a path's flow shares with flows that take a loss as a sign to send less, as most of TCP does. After
// a loss that they may have seen as well, what is in flight grows as the window of cubic does (RFC 9438, 4.2): quickly at
// first, slowly near what was in flight when the loss came, and then faster again. No probe disturbs them meanwhile. A
// flow that has more than an even share keeps less if there was a queue, and stops growing for a time while there is one, so
// that shares become equal.
type yielding struct {
	began, takes time.Duration // takes is the time until what is in flight is top; 0 if the flow does not yield
	top          float64       // bytes
	settled      time.Duration // round trips that began before it have losses that are known
	held         time.Duration // how long it has not grown for a queue
	trip         time.Duration // smallest round trip when the loss came
	longest      time.Duration // largest of the smallest ones of the last round trips
	rounds       uint8         // number of these
	losses       uint8         // round trips with losses soon after it began
}

// window returns what may be in flight.
func (y *yielding) window(now time.Duration) float64 {
	left := (y.takes - (now - y.began)).Seconds() / y.takes.Seconds()
	return y.top * (1 - (1-keepShare)*left*left*left)
}

// giveWay leaves a part of the path to other flows. If losses continue, these do not react to them, and this flow resists.
func (p *path) giveWay(now time.Duration) {
	last := p.yielded
	p.yielded = p.round.count
	if p.stubborn = p.stubborn && p.round.count-last < stubbornRounds; p.stubborn {
		p.resist()
		p.shrunk()
		return
	}
	if y := &p.yield; y.takes > 0 && (now-y.began).Seconds() < early*y.takes.Seconds() {
		if y.losses++; y.losses == againLosses || p.round.rate < p.best()*shrunkShare {
			p.stubborn = true
			p.resist()
			p.shrunk()
		}
		return
	}
	got := cmp.Or(p.round.rate, p.round.lastRate, p.best())
	if p.phase == probeUp && p.usual > 0 {
		got = min(got, p.usual)
	}
	trip := max(p.least, p.lastLow())
	top := min(float64(p.flight), got*trip.Seconds())
	if p.yield.takes > 0 {
		top = min(top, p.yield.window(now))
	}
	queued := p.queued()
	if queued && (p.resisted == 0 || p.round.count-p.resisted > resistRounds) {
		top *= 1 - sharing*max(got/p.best()-evenShare, 0)
	}
	if !queued && p.yield.takes == 0 { // hardly an overflow that others have seen: what is in flight after it shows nothing
		top = p.fill()
	}
	top = max(top, float64(leastPackets*p.limits.Packet))
	takes := recovers(top, p.least)
	if !p.learned || !queued { // these may be losses of the path: as long as between probes
		takes = 3 * cruiseRounds / 2 * p.least
	}
	p.yield = yielding{began: now, takes: takes, top: top, settled: now + time.Duration(settleTrips*float64(trip)), trip: trip}
	p.bound(now)
}

// judge looks whether others gave way as well. They have not if the queue is nearly as long as it was although this flow has
// less in flight, as beside BBR (version 1), which has twice in flight what fits into the path at its rate. The losses end
// when this flow gives way to it, so they do not show that it takes no notice of them.
func (p *path) judge(now time.Duration) {
	y := &p.yield
	if p.round.began < y.settled {
		return
	}
	if (now - y.began).Seconds() > early*y.takes.Seconds() {
		p.alike = 0
		return
	}
	y.longest = max(y.longest, p.lastLow())
	if y.rounds++; y.rounds < judgeRounds {
		return
	}
	full := max((y.trip+p.least)/2, time.Duration((1+p.low/y.top)/2*float64(y.trip)))
	if y.longest < full {
		y.longest, y.rounds = 0, 0
		return
	}
	p.alike++
	p.stubborn = p.alike >= alikeTimes
	p.resist()
}

// resist takes back what was left to others, which do not react to losses.
func (p *path) resist() {
	p.slow, p.low, p.yield = 0, 0, yielding{}
	if p.stubborn {
		p.resisted = p.round.count
	}
	p.cruise = min(p.cruise, cruiseRounds)
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

// bound sets what may be in flight while the flow yields, and the rate that belongs to it, once in a round trip.
func (p *path) bound(now time.Duration) {
	y, trip := &p.yield, max(p.least, p.lastLow())
	switch {
	case p.clear >= clearRounds && now > y.began+y.takes:
		y.began -= trip
	case now > y.began+y.takes && p.queued() && p.round.lastRate > evenShare*p.best() && y.held < y.takes:
		y.began += trip
		y.held += trip
	}
	p.low = y.window(now)
	p.slow = p.low / trip.Seconds()
}

// yields reports whether the flow still leaves room for others. It does so until it fills the path without a queue, or what
// is in flight has grown to the most that a flow of path has.
func (p *path) yields() bool {
	fill := p.best() * p.least.Seconds()
	return p.yield.takes > 0 && p.low < phases[cruise].window*fill && (p.clear < clearRounds || p.low < emptyShare*fill)
}

// recovers returns the time that a flow of TCP with as many bytes in flight needs after a loss to have as many again:
// a round trip for two packets of its window (RFC 5681, 3.1), or less if it has cubic.
func recovers(top float64, trip time.Duration) time.Duration {
	packets := top / tcpPacket
	cubic := math.Cbrt(packets * (1 - keepShare) / .4)
	return time.Duration(max(min(packets/2*trip.Seconds(), cubic), cruiseRounds*trip.Seconds()) * float64(time.Second))
}
