package congestion

import (
	"math"
	"slices"
	"testing"
	"time"
)

// cubic is the control that most TCP connections have (RFC 9438).
type cubic struct {
	fixed
	size, threshold float64
	most            float64       // window that it grows back to after a loss
	epoch, recovery time.Duration // when growth began; losses before recovery are known
}

// cubicPacket is what it counts its window in. A queue of bytes that is almost full has room for smallPacket more
// often, which is one of a path MTU that fits into it.
const (
	cubicPacket = 1500
	smallPacket = 1024 + 64
)

func newCubic() *cubic { return &cubic{size: 10 * cubicPacket, threshold: math.MaxFloat64} }

func (c *cubic) Window() int { return int(c.size) }

func (c *cubic) Lost(now time.Duration, _ int, r *RTT) {
	if now < c.recovery {
		return
	}
	c.recovery = now + r.Smoothed()
	if c.size < c.most { // leaves room for flows that have begun (RFC 9438, 4.7)
		c.most = c.size * (1 + .7) / 2
	} else {
		c.most = c.size
	}
	c.size = max(c.size*.7, 2*cubicPacket)
	c.threshold, c.epoch = c.size, now
}

func (c *cubic) Acked(now time.Duration, n int, _ time.Duration, r *RTT) {
	if c.size < c.threshold {
		c.size += float64(n)
		return
	}
	k := math.Cbrt(c.most / cubicPacket * .3 / .4)
	t := (now - c.epoch + r.Smoothed()).Seconds() - k
	reno := c.most*.7 + 3*.3/1.7*(now-c.epoch).Seconds()/r.Smoothed().Seconds()*cubicPacket
	if target := min(max(.4*t*t*t*cubicPacket+c.most, reno), 1.5*c.size); target > c.size {
		c.size += (target - c.size) * float64(n) / c.size
	}
}

// bbr1 is the first version of BBR, which most systems have. It ignores losses.
type bbr1 struct {
	fixed
	pacer
	delivery
	packet  int
	bw      [10]float64 // of the last round trips
	rounds  int
	end     int64 // of the round trip
	least   time.Duration
	seen    time.Duration // when least was last confirmed
	full    float64
	stale   int // round trips without growth
	drained bool
	cycle   int
	cycleAt time.Duration
	probe   time.Duration // end of the measurement of the round trip
}

const (
	bbrStart  = 2.89
	bbrStale  = 3
	bbrAge    = 10 * time.Second
	bbrLeast  = 4 // packets
	bbrCycles = 8
)

func (b *bbr1) Rate() float64 { return b.rate }
func (b *bbr1) Paces() bool   { return true }
func (b *bbr1) fill() float64 { return slices.Max(b.bw[:]) * b.least.Seconds() }

func (b *bbr1) Sent(now time.Duration, n int, flight int64) {
	b.sent(now, n, flight, int64(max(b.Window()/(maxMarks-4), b.packet)))
	if b.rate > 0 {
		b.pass(now, n, 2*time.Millisecond)
	}
}

func (b *bbr1) Ready(now time.Duration) time.Duration {
	return b.ready(now, b.took(b.packet), b.packet)
}

func (b *bbr1) Lost(_ time.Duration, n int, _ *RTT) {
	b.lost += int64(n)
	b.flight -= int64(n)
}

func (b *bbr1) Window() int {
	switch {
	case b.fill() == 0:
		return 10 * b.packet
	case b.probe > 0:
		return bbrLeast * b.packet
	case b.stale < bbrStale:
		return int(bbrStart * b.fill())
	}
	return max(int(2*b.fill())+3*int(b.rate/1000), bbrLeast*b.packet)
}

func (b *bbr1) Acked(now time.Duration, n int, sample time.Duration, _ *RTT) {
	expired := now-b.seen > bbrAge
	if b.least == 0 || sample <= b.least || expired {
		b.least, b.seen = sample, now
	}
	s, _ := b.acked(now, n, 1)
	b.flight -= int64(n)
	if b.answered() >= b.end {
		b.end = b.answered() + b.flight
		b.rounds++
		b.bw[b.rounds%len(b.bw)] = 0
		if v := slices.Max(b.bw[:]); v > b.full*1.25 && b.stale < bbrStale {
			b.full, b.stale = v, 0
		} else {
			b.stale++
		}
	}
	round := &b.bw[b.rounds%len(b.bw)]
	*round = max(*round, s.rate)
	switch {
	case expired && b.probe == 0:
		b.probe = now + 200*time.Millisecond + b.least
	case b.probe > 0 && now > b.probe:
		b.probe, b.seen = 0, now
	}
	b.rate = max(b.gain(now)*slices.Max(b.bw[:])*.99, float64(b.packet))
}

// gain is the pace, as a multiple of the rate.
func (b *bbr1) gain(now time.Duration) float64 {
	flight, lasted := float64(b.flight), now-b.cycleAt
	switch {
	case b.stale < bbrStale:
		return bbrStart
	case !b.drained && flight > b.fill():
		return 1 / bbrStart
	case !b.drained:
		b.drained, b.cycleAt, b.cycle = true, now, 2
	case lasted < b.least && (b.cycle != 1 || flight > b.fill()):
	case b.cycle == 0 && flight < 1.25*b.fill() && lasted < 4*b.least:
	default:
		b.cycle, b.cycleAt = (b.cycle+1)%bbrCycles, now
	}
	switch b.cycle {
	case 0:
		return 1.25
	case 1:
		return .75
	}
	return 1
}

// Flows with other controls get their share of a path, although they began later.
func TestPathSharesWithOthers(t *testing.T) {
	if testing.Short() {
		t.Skip("sends gigabytes")
	}
	const trip = 20 * time.Millisecond
	for _, c := range []struct {
		name  string
		other Control
		queue float64 // part of what fits into the path
		least float64 // Jain's index
	}{
		{"cubic", newCubic(), .5, .9}, {"cubic", newCubic(), 1, .9},
		{"BBR", &bbr1{packet: testPacket}, .5, .9}, {"BBR", &bbr1{packet: testPacket}, 1, .9},
	} {
		b := newBottleneck(500*mbit, trip, 0, 0)
		b.queue = c.queue * b.fill()
		limits := longLimits
		limits.Packet = smallPacket
		b.addWith(New(Path, limits), smallPacket)
		b.run(20 * trip)
		b.addWith(c.other, cubicPacket)
		shares := b.between(10*time.Second, 30*time.Second)
		t.Logf("%s, queue of %v of the path: %.0f Mbit/s beside %.0f, fairness %.3f", c.name, c.queue, shares[0]/mbit, shares[1]/mbit, Jain(shares))
		if f := Jain(shares); f < c.least || shares[0]+shares[1] < .8*b.rate {
			t.Errorf("%s, queue of %v of the path: %.0f Mbit/s beside %.0f, fairness %.3f", c.name, c.queue, shares[0]/mbit, shares[1]/mbit, f)
		}
	}
}

// A path that carries much less than before, as one whose line or route changed, is not flooded for longer than two probes.
// Four flows on 60 or 20 Mbit/s always lose as much as is expected here: a part of the queue is less than their smallest windows.
func TestPathFollowsAPathThatShrinks(t *testing.T) {
	const trip = 20 * time.Millisecond
	for _, c := range []struct {
		part  float64 // of the rate that is left
		flows int
		most  float64 // bytes sent for each that arrives
	}{{.5, 1, 1.05}, {.3, 1, 1.05}, {.1, 1, 1.05}, {.03, 1, 1.05}, {.3, 4, 1.4}, {.1, 4, 1.8}} {
		b := newBottleneck(200*mbit, trip, 0, 0)
		b.queue = b.fill()
		for range c.flows {
			b.add(New(Path, longLimits))
		}
		b.run(2 * time.Second)
		b.rate, b.queue = b.rate*c.part, b.queue*c.part
		b.run(4 * time.Second)
		var sent, arrived int64
		count := func(sign int64) {
			for _, f := range b.flows {
				sent, arrived = sent+sign*f.sent, arrived+sign*f.arrived
			}
		}
		count(-1)
		b.run(8 * time.Second)
		count(1)
		used, more := float64(arrived)/4/b.rate, float64(sent)/float64(arrived)
		t.Logf("%v of the rate, %d flows: %.2f of it used, %.2f bytes sent for each that arrived", c.part, c.flows, used, more)
		if more > c.most || used < .9 {
			t.Errorf("%v of the rate, %d flows: %.2f of it used, %.2f bytes sent for each that arrived", c.part, c.flows, used, more)
		}
	}
}
