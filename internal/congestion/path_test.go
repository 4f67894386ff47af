package congestion

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"softrdma/internal/eventqueue"
)

// A bottleneck is a path with a queue of its own, for flows that always have something to send.
type bottleneck struct {
	rate   float64 // bytes per second
	trip   time.Duration
	queue  float64 // bytes that may wait; more are dropped
	loss   float64
	late   time.Duration // most that an answer is later, without overtaking
	random *rand.Rand

	now    time.Duration
	busy   time.Duration // when the wire is free
	last   time.Duration // when the last answer comes
	peak   float64
	events eventqueue.Queue[event]
	flows  []*flow
}

// A flow is one sender.
type flow struct {
	ctl     Control
	rtt     RTT
	packet  int64 // bytes of each
	flight  int64
	arrived int64
	until   int64 // bytes that it sends; 0 for any number
	sent    int64
	asleep  bool  // a wake-up is due
	burst   int64 // packets for which the window has room before one is sent, or a third of it
}

// An event is an answer or a wake-up.
type event struct {
	flow *flow
	sent time.Duration
	lost bool
	wake bool
}

func newBottleneck(rate float64, trip time.Duration, queue, loss float64) *bottleneck {
	return &bottleneck{rate: rate, trip: trip, queue: queue, loss: loss, random: rand.New(rand.NewPCG(1, 2))}
}

// fill is the bandwidth-delay product.
func (b *bottleneck) fill() float64 { return b.rate * b.trip.Seconds() }

func (b *bottleneck) add(c Control) *flow { return b.addWith(c, testPacket) }

// addWith adds a flow whose packets have that many bytes.
func (b *bottleneck) addWith(c Control, packet int64) *flow {
	f := &flow{ctl: c, packet: packet}
	b.flows = append(b.flows, f)
	return f
}

// send sends what a flow may send now.
func (b *bottleneck) send(f *flow) {
	if window := int64(f.ctl.Window()); f.flight > 0 && f.flight+min(f.burst*f.packet, window/3) > window {
		return
	}
	for f.flight == 0 || f.flight+f.packet <= int64(f.ctl.Window()) {
		if f.until > 0 && f.sent >= f.until {
			return
		}
		if f.ctl.Paces() {
			if at := f.ctl.Ready(b.now); at > b.now {
				if !f.asleep {
					f.asleep = true
					b.events.Push(at, event{flow: f, wake: true})
				}
				return
			}
		}
		f.flight += f.packet
		f.sent += f.packet
		f.ctl.Sent(b.now, int(f.packet), f.flight)
		b.busy = max(b.busy, b.now)
		waiting := (b.busy - b.now).Seconds() * b.rate
		if waiting+float64(f.packet) > b.queue || b.random.Float64() < b.loss {
			// It is known from those behind it, a quarter of a round trip later.
			b.events.Push(b.busy+b.trip*5/4, event{flow: f, sent: b.now, lost: true})
			continue
		}
		b.peak = max(b.peak, waiting)
		b.busy += time.Duration(float64(f.packet) / b.rate * 1e9)
		if at := b.busy + b.trip; b.late > 0 {
			b.last = max(b.last, at+time.Duration(b.random.Int64N(int64(b.late))))
		} else {
			b.last = at
		}
		b.events.Push(b.last, event{flow: f, sent: b.now})
	}
}

// run runs the flows up to a moment.
func (b *bottleneck) run(until time.Duration) {
	for _, f := range b.flows {
		b.send(f)
	}
	for {
		e, at, ok := b.events.Pop(until)
		if !ok {
			break
		}
		b.now = max(b.now, at)
		f := e.flow
		switch {
		case e.wake:
			f.asleep = false
		case e.lost:
			f.flight -= f.packet
			f.ctl.Lost(b.now, int(f.packet), &f.rtt)
		default:
			f.flight -= f.packet
			f.arrived += f.packet
			f.rtt.Sample(b.now, b.now-e.sent)
			f.ctl.Acked(b.now, int(f.packet), b.now-e.sent, &f.rtt)
		}
		b.send(f)
	}
	b.now = until
}

// between returns the bytes per second that each flow moves between two moments.
func (b *bottleneck) between(from, to time.Duration) []float64 {
	b.run(from)
	before := make([]int64, len(b.flows))
	for i, f := range b.flows {
		before[i] = f.arrived
	}
	b.run(to)
	shares := make([]float64, len(b.flows))
	for i, f := range b.flows {
		shares[i] = float64(f.arrived-before[i]) / (to - from).Seconds()
	}
	return shares
}

var longLimits = Limits{Window: testLimit, Long: 1 << 30, Packet: testPacket}

const mbit = 1e6 / 8

// The path is full within ten round trips, whatever it loses, and no more than one and a half
// times what fits into it waits in front of it.
func TestPathFillsALongPath(t *testing.T) {
	for _, c := range []struct {
		rate  float64
		trip  time.Duration
		queue float64 // part of what fits into the path
		loss  float64
	}{
		{500 * mbit, 20 * time.Millisecond, 4, 0}, {500 * mbit, 20 * time.Millisecond, .2, .01}, {500 * mbit, 20 * time.Millisecond, .2, .05},
		{500 * mbit, 100 * time.Millisecond, 4, .05}, {500 * mbit, 100 * time.Millisecond, .05, 0}, {500 * mbit, 100 * time.Millisecond, .05, .01},
		{5000 * mbit, 20 * time.Millisecond, .5, .01},
	} {
		for _, k := range []Kind{Default, Path} {
			b := newBottleneck(c.rate, c.trip, 0, c.loss)
			b.queue = c.queue * b.fill()
			b.add(New(k, longLimits))
			started := 0
			for i := 1; started == 0 && i < 40; i++ {
				if b.between(c.trip*time.Duration(i-1), c.trip*time.Duration(i))[0] > .9*c.rate*(1-c.loss) {
					started = i
				}
			}
			// The first data arrives one and a half round trips after the start; a window of an
			// unknown path is in flight until then.
			most := 10
			if c.rate > 1000*mbit {
				most++
			}
			v := b.between(40*c.trip, 100*c.trip)[0]
			t.Logf("%v, %v: %.3f of the line; started after %d round trips; %.2f of the path waiting", k, c, v/(c.rate*(1-c.loss)), started, b.peak/b.fill())
			if v < .93*c.rate*(1-c.loss) || started == 0 || started > most || b.peak > 1.5*b.fill() {
				t.Errorf("%v, %v: %.3f of the line; started after %d round trips; %.2f of the path waiting", k, c, v/(c.rate*(1-c.loss)), started, b.peak/b.fill())
			}
		}
	}
}

// Answers that come late come together, so some samples of the rate are too large. The flow does not take the queue that it
// would make for one of others, in which it leaves them room for seconds.
func TestPathMeasuresTheRateWhereAnswersAreLate(t *testing.T) {
	const trip = 20 * time.Millisecond
	for _, late := range []time.Duration{300 * time.Microsecond, time.Millisecond, 2 * time.Millisecond} {
		b := newBottleneck(500*mbit, trip, 0, 0)
		b.queue, b.late = b.fill()/5, late
		p := newPath(longLimits)
		b.add(p)
		used := b.between(100*trip, 250*trip)[0] / b.rate
		t.Logf("answers up to %v late: %.3f of the line, the rate seems to be %.3f of it", late, used, p.best()/b.rate)
		if used < .93 || p.best() > 1.03*b.rate {
			t.Errorf("answers up to %v late: %.3f of the line, the rate seems to be %.3f of it", late, used, p.best()/b.rate)
		}
	}
}

// Flows that begin one after the other share a path, with short and long queues. When the second one begins decides which
// of their probes meet, so the shares vary.
func TestPathSharesWithItself(t *testing.T) {
	const trip = 20 * time.Millisecond
	starts := []time.Duration{40 * trip, 50 * trip, 60 * trip}
	for _, queue := range []float64{.2, 1, 4} {
		for _, later := range starts {
			b := newBottleneck(500*mbit, trip, 0, 0)
			b.queue = queue * b.fill()
			b.add(New(Path, longLimits))
			b.run(later)
			b.add(New(Path, longLimits))
			shares := b.between(500*trip, 1000*trip)
			f := Jain(shares)
			t.Logf("queue %v, %v later: %.0f, fairness %.3f", queue, later, shares, f)
			if f < .9 {
				t.Errorf("queue %v, %v later: shares %.0f, fairness %.3f", queue, later, shares, f)
			}
			if all := shares[0] + shares[1]; all < .9*b.rate {
				t.Errorf("queue %v, %v later: %.3f of the line", queue, later, all/b.rate)
			}
		}
	}
}

// A loss without a queue costs the packet only: the rate stays.
func TestPathKeepsItsRateForAnAccidentalLoss(t *testing.T) {
	const trip = 20 * time.Millisecond
	b := newBottleneck(500*mbit, trip, 1e9, 0)
	f := b.add(New(Path, longLimits))
	b.run(60 * trip)
	before := f.ctl.Window()
	for range 20 {
		f.ctl.Lost(b.now, testPacket, &f.rtt)
	}
	if after := f.ctl.Window(); after < before {
		t.Errorf("a window of %d became %d", before, after)
	}
}

// After a timeout the peer is asked with a few packets. The first answer shows that the path is
// as it was.
func TestPathAfterATimeout(t *testing.T) {
	const trip = 20 * time.Millisecond
	b := newBottleneck(500*mbit, trip, 1e9, 0)
	f := b.add(New(Path, longLimits))
	b.run(60 * trip)
	before := f.ctl.Window()
	f.ctl.Timeout(b.now)
	if w := f.ctl.Window(); w != leastPackets*testPacket {
		t.Errorf("%d bytes after a timeout", w)
	}
	f.ctl.Acked(b.now, testPacket, 0, &f.rtt)
	if w := f.ctl.Window(); w < before*9/10 {
		t.Errorf("%d bytes before, %d after the first answer", before, w)
	}
}

// The choice follows the path: a window on a short one, the model on a long one, and back.
func TestDefaultModelsLongPaths(t *testing.T) {
	c := New(Default, longLimits)
	var r RTT
	r.Sample(0, LongTrip/2)
	c.Acked(0, testPacket, LongTrip/2, &r)
	if c.Paces() {
		t.Error("a short path is modelled")
	}
	c = New(Default, longLimits)
	var l RTT
	l.Sample(0, 5*LongTrip)
	c.Acked(5*LongTrip, testPacket, 5*LongTrip, &l)
	if !c.Paces() || c.Rate() == 0 {
		t.Error("a long path is not modelled")
	}
	l.Sample(6*LongTrip, LongTrip/4)
	c.Acked(6*LongTrip, testPacket, LongTrip/4, &l)
	if c.Paces() || c.Window() < initialWindow || c.Window() > testLimit {
		t.Errorf("a path that became short is modelled; window %d", c.Window())
	}
	if c = New(Default, testLimits); c.Paces() {
		t.Error("the path to a standard peer is modelled")
	}
}

// The smallest round trip of a path of about LongTrip is sometimes longer than that and sometimes shorter.
// The choice changes once at most: each start of the model fills a queue.
func TestDefaultDoesNotAlternate(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	c := New(Default, longLimits)
	var r RTT
	changes, paced := 0, false
	for now := time.Duration(0); now < 10*time.Minute; now += 10 * time.Millisecond {
		trip := LongTrip + time.Duration(float64(LongTrip)*.2*math.Sin(now.Minutes())) + time.Duration(random.IntN(int(LongTrip/10)))
		r.Sample(now, trip)
		c.Acked(now, testPacket, trip, &r)
		if c.Paces() != paced {
			paced = !paced
			changes++
		}
	}
	if changes != 1 {
		t.Errorf("the choice changed %d times, expected one", changes)
	}
}

// A path that becomes longer during a transfer, and shorter again, is filled within a few round trips in each case,
// whether it was modelled before or not.
func TestPathFollowsAPathThatChanges(t *testing.T) {
	for _, c := range []struct {
		kind        Kind
		short, long time.Duration
	}{{Default, 100 * time.Microsecond, 20 * time.Millisecond}, {Default, 5 * time.Millisecond, 50 * time.Millisecond}, {Path, 20 * time.Millisecond, 100 * time.Millisecond}} {
		b := newBottleneck(500*mbit, c.short, 256<<10, .001)
		f := b.add(New(c.kind, longLimits))
		b.run(time.Second)
		for range 3 {
			for _, trip := range []time.Duration{c.long, c.short} {
				b.trip = trip
				start, settled := b.now, 35*trip
				until := b.between(start, start+settled)[0] / b.rate
				then := b.between(start+settled, start+settled+8*time.Second)[0] / b.rate
				t.Logf("%v, %v: %.2f of the line in the first %v, then %.2f", c.kind, trip, until, settled, then)
				if then < .9 || f.rtt.Least() > trip*9/8+queueSlack*2 {
					t.Errorf("%v, %v: %.2f of the line after %v, smallest round trip %v", c.kind, trip, then, settled, f.rtt.Least())
				}
			}
		}
	}
}

// The flow's own queue is not taken for a longer path.
func TestDefaultTellsAQueueFromALongerPath(t *testing.T) {
	const trip = 100 * time.Microsecond
	b := newBottleneck(100*mbit, trip, 1e9, 0)
	f := b.add(New(Default, longLimits))
	used := b.between(100*time.Millisecond, 2*leastEpoch-time.Second)[0] / b.rate
	t.Logf("%.3f of the line, smallest round trip %v, %.0f bytes waited", used, f.rtt.Least(), b.peak)
	if used < .98 || f.rtt.Least() > LongTrip || b.peak < 2*b.rate*LongTrip.Seconds() {
		t.Errorf("%.3f of the line, smallest round trip %v, %.0f bytes waited", used, f.rtt.Least(), b.peak)
	}
}

// What has arrived has left. A READ asks for a gigabyte at once, while the rate is not known yet, so the pace it was
// counted with may be far too low. The next one does not wait for that.
func TestPathDoesNotWaitForWhatHasArrived(t *testing.T) {
	const trip = 100 * time.Millisecond
	var r RTT
	r.Sample(0, trip)
	for _, k := range []Kind{Default, Path} {
		c := NewFetch(k, longLimits)
		now := trip
		c.Acked(now, testPacket, trip, &r)
		if c.Sent(now, 1<<30, 1<<30); c.Ready(now) < now+time.Second {
			t.Fatalf("%v: a gigabyte leaves at once", k)
		}
		now += time.Second
		c.Acked(now, 1<<30, 0, &r)
		if at := c.Ready(now); at > now {
			t.Errorf("%v: nothing is in flight, and the next READ waits for %v", k, at-now)
		}
		c.Sent(now, testPacket, testPacket)
		if at := c.Ready(now); at > now+trip {
			t.Errorf("%v: a packet is in flight, and the next one waits for %v", k, at-now)
		}
	}
}

// A mark ends a probe and lowers the rate, once in a round trip.
func TestPathObeysMarks(t *testing.T) {
	const trip = 20 * time.Millisecond
	b := newBottleneck(500*mbit, trip, 1e9, 0)
	f := b.add(New(Path, longLimits))
	b.run(60 * trip)
	p := f.ctl.(*path)
	p.enter(b.now, cruise)
	before := p.Window()
	p.told = 0
	for range 5 {
		p.Notified(b.now, &f.rtt)
	}
	after := p.Window()
	if after >= before || float64(after) < math.Floor(.5*float64(before)) {
		t.Errorf("a window of %d became %d", before, after)
	}
}
