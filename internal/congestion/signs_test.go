package congestion

import (
	"math/rand/v2"
	"testing"
	"time"
)

// cruises returns a path's control between probes, with a queue that has stood for some round trips.
func cruises(packets int, stood uint16) *path {
	const trip = 20 * time.Millisecond
	p := newPath(longLimits)
	p.begin(0, packets*testPacket, trip)
	p.phase, p.fullCount, p.stood = cruise, fullRounds, stood
	return p
}

// round has n packets of a round trip answered, of which some were lost, behind a queue.
func (p *path) answer(now time.Duration, n, lost int) {
	p.round.low = 3 * p.least / 2
	p.round.rate = p.best()
	p.flight = int64(n * testPacket)
	p.delivered += int64((n - lost) * testPacket)
	p.lost += int64(lost * testPacket)
	p.roundEnds(now, false)
}

// What looks like the overflow of a queue that others share is not always one: the flow's own start and what a program gives it
// at once fill the queue as well. A path that loses a large part of its packets has changed in any case.
func TestPathTellsOverflowsFromItsOwnBursts(t *testing.T) {
	const packets = 1000
	for _, c := range []struct {
		name  string
		phase phase
		stood uint16
		lost  int
		gives bool
	}{
		{"a queue of one round trip", cruise, 0, 20, false},
		{"a queue that stays", cruise, stoodRounds, 20, true},
		{"few losses behind a queue that stays", cruise, stoodRounds, 5, false},
		{"a path that has changed", cruise, 0, 300, true},
		{"what the start has lost", drain, 0, 300, false},
	} {
		p := cruises(packets, c.stood)
		p.enter(p.least, c.phase)
		p.answer(2*p.least, packets, c.lost)
		if p.yield.takes > 0 != c.gives {
			t.Errorf("%s: gives way %v, expected %v", c.name, !c.gives, c.gives)
		}
	}
}

// Where a round trip has few packets, a path that loses many of them by accident loses twice as many in some. They are no sign,
// although ends that answer late look like a queue.
func TestPathTakesNoChanceForASign(t *testing.T) {
	const packets, rounds, lost = 150, 2000, .05
	random := rand.New(rand.NewPCG(7, 8))
	p := cruises(packets, stoodRounds)
	gives := 0
	for i := range rounds {
		n := 0
		for range packets {
			if random.Float64() < lost {
				n++
			}
		}
		p.answer(time.Duration(i+1)*2*p.least, packets, n)
		if p.yield.takes > 0 {
			gives++
			p.yield, p.low, p.slow = yielding{}, 0, 0
		}
		if p.cruise == 0 {
			p.enter(time.Duration(i+1)*2*p.least, refill)
			p.enter(time.Duration(i+1)*2*p.least, cruise)
		}
	}
	if gives > rounds/100 {
		t.Errorf("%d of %d round trips were signs of congestion", gives, rounds)
	}
	if p.base < lost/2 || p.base > 1.1*lost {
		t.Errorf("the path seems to lose %.3f, expected about %v", p.base, lost)
	}
}

// A probe in which little arrives, as between the READs of a program, shows no sign of congestion, so the rate does not fall.
func TestPathKeepsItsRateAfterAProbeWithLittle(t *testing.T) {
	p := cruises(1000, 0)
	p.slow = .9 * p.best()
	before := p.slow
	p.round.rate = p.best() / 100
	if p.regain(); p.slow > 0 && p.slow < before {
		t.Errorf("%.0f bytes a second after the probe, before %.0f", p.slow, before)
	}
}
