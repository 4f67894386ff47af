package congestion

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestPathSurvivesLossesBeforeAProbe loses packets while a flow fills the path for a probe. The flow may send no more than
// before then, so there is nothing to probe. It is to fill the path again later.
func TestPathSurvivesLossesBeforeAProbe(t *testing.T) {
	const trip = 20 * time.Millisecond
	start := func() (*bottleneck, *path) {
		b := newBottleneck(100*mbit, trip, 0, 0)
		b.queue = b.fill() / 5
		p := newPath(longLimits)
		b.add(p)
		b.run(2 * time.Second)
		return b, p
	}
	until := func(f phase, b *bottleneck, p *path) {
		for p.phase != f {
			b.run(b.now + time.Millisecond)
		}
	}
	first, p := start()
	until(refill, first, p)
	b, p := start()
	b.run(first.now - trip*5/4) // a loss is known after this time
	b.loss = .35
	b.run(b.now + trip)
	b.loss = 0
	until(refill, b, p)
	b.run(b.now + 2*trip)
	if p.yield.takes == 0 {
		t.Fatal("the losses do not count")
	}
	if used := b.between(b.now+10*time.Second, b.now+12*time.Second)[0] / b.rate; used < .95 {
		t.Errorf("%.2f of the line after ten seconds, in phase %d", used, p.phase)
	}
}

// TestPathStartsAfterALongFirstAnswer delays only the first answers, as a peer does that was not ready for them.
func TestPathStartsAfterALongFirstAnswer(t *testing.T) {
	const trip = 20 * time.Millisecond
	for _, k := range []Kind{Default, Path} {
		b := newBottleneck(500*mbit, 50*trip, 0, 0)
		b.queue = b.rate * trip.Seconds()
		b.send(b.add(New(k, longLimits)))
		b.trip = trip
		b.run(50 * trip)
		if used := b.between(b.now+25*trip, b.now+50*trip)[0] / b.rate; used < .9 {
			t.Errorf("%v: %.2f of the line after 25 round trips", k, used)
		}
	}
}

// TestPathLeavesTCPsPartAfterLossesWithoutAQueue loses a third of a round trip's packets of a flow that is alone. It leaves
// no more to others than cubic would, as nothing shows that there are any.
func TestPathLeavesTCPsPartAfterLossesWithoutAQueue(t *testing.T) {
	const trip = 100 * time.Millisecond
	b := newBottleneck(100*mbit, trip, 0, 0)
	b.queue = b.fill()
	p := newPath(longLimits)
	b.add(p)
	b.run(4 * time.Second)
	for p.phase != cruise || p.cruise != cruiseRounds-1 {
		b.run(b.now + time.Millisecond)
	}
	b.loss = .35
	b.run(b.now + trip)
	b.loss = 0
	b.run(b.now + 2*trip)
	if p.yield.takes == 0 {
		t.Fatal("the losses do not count")
	}
	if used := b.between(b.now, b.now+p.yield.takes)[0] / b.rate; used < .8 {
		t.Errorf("%.2f of the line in the %v in which cubic would grow to what it had", used, p.yield.takes)
	}
}

// TestPathRecoversFromAnyPath changes the path at random, with losses, timeouts and marks. Whatever a flow has learned, it
// fills the path that is left ten seconds later. The seeds are some that once ended in a probe or a start without end.
func TestPathRecoversFromAnyPath(t *testing.T) {
	const trip = time.Millisecond
	for _, seed := range []uint64{152, 191, 252, 264, 304, 312} {
		random := rand.New(rand.NewPCG(seed, 3))
		b := newBottleneck(100*mbit, 20*trip, 0, 0)
		b.queue = b.fill()
		f := b.add(New([]Kind{Default, Path}[seed%2], longLimits))
		for range 15 {
			b.rate = []float64{5, 20, 100, 200}[random.IntN(4)] * mbit
			b.trip = []time.Duration{2, 5, 20, 20, 50, 100}[random.IntN(6)] * trip
			b.queue = []float64{.1, .5, 1, 3}[random.IntN(4)] * b.fill()
			b.loss = []float64{0, 0, 0, .001, .02, .1, .4}[random.IntN(7)]
			b.run(b.now + time.Duration(20+random.IntN(700))*trip)
			switch random.IntN(8) {
			case 0:
				f.ctl.Timeout(b.now)
			case 1:
				f.ctl.Notified(b.now, &f.rtt)
			}
		}
		b.rate, b.trip, b.loss = 100*mbit, 20*trip, 0
		b.queue = b.fill()
		if used := b.between(b.now+10*time.Second, b.now+11*time.Second)[0] / b.rate; used < .8 {
			t.Errorf("seed %d: %.2f of the line", seed, used)
		}
	}
}
