package congestion

import (
	"fmt"
	"math"
	"os"
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
	start           hystart
}

// hystart ends the start of cubic when round trips become longer (RFC 9406, as Linux had it before).
type hystart struct {
	least, low time.Duration // smallest round trip, and that of the first ones of the round
	end        time.Duration // of the round
	samples    int
}

const (
	hystartSamples = 8
	hystartWindow  = 16 * cubicPacket
)

// ends reports whether the start ends with a round trip.
func (h *hystart) ends(now, sample time.Duration, r *RTT) bool {
	if h.least == 0 || sample < h.least {
		h.least = sample
	}
	if now >= h.end {
		h.end, h.low, h.samples = now+r.Smoothed(), sample, 0
	}
	if h.samples++; h.samples <= hystartSamples {
		h.low = min(h.low, sample)
		return false
	}
	return h.low > h.least+min(max(h.least/8, 4*time.Millisecond), 16*time.Millisecond)
}

// cubicPacket is what it counts its window in. A queue of bytes that is almost full has room for smallPacket more
// often, which is one of a path MTU that fits into it.
const (
	cubicPacket = 1500
	cubicBurst  = 24 // packets, as Linux sends them with segmentation offload: a millisecond of half a Gbit/s
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

func (c *cubic) Acked(now time.Duration, n int, sample time.Duration, r *RTT) {
	if c.size < c.threshold && c.size >= hystartWindow && c.start.ends(now, sample, r) {
		c.threshold, c.most, c.epoch = c.size, c.size, now
	}
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

// Flows with other controls get their share of a path, whether they begin later, at the same time or earlier. Cubic needs
// 8 s for what it left after a loss, so its shares are those of 40 s.
func TestPathSharesWithOthers(t *testing.T) {
	if testing.Short() {
		t.Skip("sends gigabytes")
	}
	const trip = 20 * time.Millisecond
	for _, c := range []struct {
		name  string
		other Control
		burst int64         // packets that it sends at once
		queue float64       // part of what fits into the path
		later time.Duration // when the other begins
		ends  time.Duration
	}{
		{"cubic", newCubic(), 1, .5, 20 * trip, 30 * time.Second},
		{"cubic", newCubic(), cubicBurst, 1, 0, 55 * time.Second},
		{"cubic", newCubic(), cubicBurst, 1, -20 * trip, 55 * time.Second},
		{"BBR", &bbr1{packet: testPacket}, 1, .5, 20 * trip, 30 * time.Second},
		{"BBR", &bbr1{packet: testPacket}, 1, 1, 20 * trip, 30 * time.Second},
	} {
		if c.later < 0 && os.Getenv("SOFTRDMA_LONG_PATHS") == "" {
			continue
		}
		b := newBottleneck(500*mbit, trip, 0, 0)
		b.queue = c.queue * b.fill()
		limits := longLimits
		limits.Packet = smallPacket
		begin := []func(){
			func() { b.addWith(New(Path, limits), smallPacket) },
			func() { b.addWith(c.other, cubicPacket).burst = c.burst },
		}
		own := 0
		if c.later < 0 {
			slices.Reverse(begin)
			own = 1
		}
		begin[0]()
		b.run(max(c.later, -c.later))
		begin[1]()
		shares := b.between(15*time.Second, c.ends)
		f := Jain(shares)
		what := fmt.Sprintf("%s %v later, queue of %v of the path: %.0f Mbit/s beside %.0f, fairness %.3f", c.name, c.later, c.queue, shares[own]/mbit, shares[1-own]/mbit, f)
		t.Log(what)
		if f < .9 || shares[0]+shares[1] < .8*b.rate {
			t.Error(what)
		}
	}
}

// A flow that gave way takes back what it left if the queue stays nearly as long as it was: the others do not react. The
// second time it resists them. It keeps to what it left if the queue shrinks with what it has in flight, as beside cubic,
// or shrank only while a flow of BBR removed what its start had left in the queue.
func TestPathNoticesWhoDoesNotGiveWay(t *testing.T) {
	const trip = 20 * time.Millisecond
	for _, c := range []struct {
		name  string
		queue func(round int, left float64) float64 // part of the round trip when the loss came
		takes bool
	}{
		{"BBR", func(int, float64) float64 { return .95 }, true},
		{"BBR that has just begun", func(round int, _ float64) float64 {
			if round < 2*judgeRounds {
				return .6
			}
			return .95
		}, true},
		{"cubic", func(_ int, left float64) float64 { return left }, false},
		{"cubic that lost nothing", func(_ int, left float64) float64 { return .6*left + .4 }, false},
	} {
		p := newPath(longLimits)
		p.begin(0, int(500*mbit*trip.Seconds()), trip)
		now := time.Duration(0)
		for loss := 1; loss <= alikeTimes; loss++ {
			p.phase, p.learned, p.round.lastLow = cruise, true, 2*trip
			p.flight = int64(p.fill())
			p.giveWay(now)
			for round := 0; round < 4*judgeRounds && p.yield.takes > 0; round++ {
				now += 2 * trip
				p.round.low = max(trip, time.Duration(c.queue(round, p.low/p.yield.top)*float64(2*trip)))
				p.roundEnds(now, false)
			}
			if took := p.yield.takes == 0; took != c.takes || p.stubborn != (c.takes && loss == alikeTimes) {
				t.Errorf("%s, loss %d: took back %v, resists %v", c.name, loss, took, p.stubborn)
			}
			p.round.count += stubbornRounds
			p.yield = yielding{}
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
