package congestion

import "time"

// A path that has become longer looks like one with a queue: all round trips are long. A flow cannot
// make a queue much longer than what it has in flight, and so a path that is modelled can tell the two
// apart when round trips have more than doubled. A window knows nothing of the path. In both cases the
// flow empties the path to be certain: it has only a few packets in flight until round trips of those
// are known. Without others on the path they show how long it is.

// alone measures round trips of packets that were sent while the flow had nothing else in flight.
type alone struct {
	least time.Duration // smallest of them; 0 if there is none
	from  time.Duration // when the first of them ended
	next  time.Duration // the path is not emptied again before
}

const (
	farFactor   = 3   // of the smallest round trip: what is longer is not a queue of this flow
	farRounds   = 3   // in a row
	longerShare = 1.5 // of the smallest round trip: what is longer is another path
	aloneTrips  = 2   // round trips in which packets are alone
)

// took notes a round trip while the path is emptied, since a time, and reports whether there were enough.
func (a *alone) took(now, sample, since time.Duration) bool {
	if now-sample < since {
		return false // it left among others
	}
	if a.least == 0 {
		a.from, a.least = now, sample
	}
	a.least = min(a.least, sample)
	return now-a.from >= aloneTrips*a.least
}

// mayEmpty reports whether the round trips show another path, or a queue that others have made.
func (p *path) mayEmpty(now time.Duration) bool {
	return p.far >= farRounds && now >= p.alone.next && p.phase != startup
}

// emptied ends the phase in which the path is emptied.
func (p *path) emptied(now time.Duration, rtt *RTT) {
	if alone := p.alone.least; float64(alone) > longerShare*float64(p.least) {
		p.least, p.seenAt = alone, now
		p.high, p.low, p.slow, p.yield = 0, 0, 0, yielding{}
		rtt.Lengthened(now, alone)
	}
	p.round.low, p.round.lastLow = 0, 0
	if p.fullCount < fullRounds {
		p.enter(now, startup)
		return
	}
	p.enter(now, refill)
}
