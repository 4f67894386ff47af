package congestion

import (
	"math"
	"time"
)

// The parameters of DCQCN, as published by its authors (SIGCOMM 2015) where
// they do not depend on the line's rate. Theirs are for lines of 10 to 40 Gbit/s
// and round trips below 50 µs; on slower or longer paths, where what was done
// shows later, times are in round trips and steps in packets for each of them.
const (
	// NotifyInterval is the shortest time between two notifications of one
	// queue pair, and alphaInterval how long without any lets the estimate of
	// congestion decay.
	NotifyInterval = 50 * time.Microsecond
	alphaInterval  = 55 * time.Microsecond

	alphaGain = 1.0 / 256 // for each alphaInterval
	mostGain  = 1.0 / 16  // where it takes longer

	raiseInterval = 300 * time.Microsecond // between two increases by time
	raiseBytes    = 10 << 20               // and by bytes sent
	fastRecovery  = 5                      // increases that halve the way back
	silence       = 8                      // times raiseInterval without an acknowledge: increases wait for one
	longPause     = 1000                   // times raiseInterval: what was known is forgotten
	longCalm      = 6 * fastRecovery       // increases after which each is a step more than the last

	additive   = 5e6 // bytes per second, at most: 40 Mbit/s
	rateShare  = 8   // the part of the rate that an increase is at most, where round trips are unknown
	hyperSteps = 10  // additive increases that a hyper increase is

	slowest = 125e3 // bytes per second: 1 Mbit/s
	fastest = 50e9  // from here on there is no pace

	// A flow that had to wait sends paceQuantum at once, and twice that after
	// a pause: timers of a process are no finer.
	paceQuantum = 50 * time.Microsecond

	// answerSlack is how much later than the network lets them answers may come
	// before a paced flow waits for them: what processes wait for their processors.
	answerSlack = 200 * time.Microsecond
)

// dcqcn is DCQCN's reaction point: notifications decrease the rate by the
// estimated share of marked packets; without them it recovers half of what it
// lost (fast recovery), then probes for more (additive, then hyper increase).
// Until the first notification there is no pace, as a line's rate is not known
// to a process. The window of losses bounds it besides, and lets it start
// slowly: DCQCN is made for networks that lose nothing. A rate alone would keep
// a queue as it is that stands already: no more is in flight than what the rate
// sends in a round trip where marks begin.
type dcqcn struct {
	window
	rate, target float64 // bytes per second, 0 before the first notification
	alpha        float64
	cutAt        time.Duration // what the last decrease did shows from here on
	alphaAt      time.Duration // alpha decays next
	raiseAt      time.Duration // the rate is raised next by time
	raiseIn      int           // bytes until it is raised by what was sent
	byTime       uint8         // increases since the last decrease
	byBytes      uint8

	trip time.Duration // smoothed round trip, 0 while it is not known
	loop time.Duration // smallest round trip of late when marks began

	heard   time.Duration // something was acknowledged last
	unheard int           // bytes sent since

	free time.Duration // when all that was sent has left at the rate
	sent meter
}

// A meter measures the rate at which a flow sends by itself.
type meter struct {
	from time.Duration
	n    int
	last float64 // bytes per second, as measured last
}

func (m *meter) add(now time.Duration, n int) {
	if t := now - m.from; t >= 2*raiseInterval {
		m.from, m.n = now, 0 // a pause is none of it
	} else if t >= raiseInterval/2 {
		m.last = m.rateOver(t)
		m.from, m.n = now, 0
	}
	m.n += n
}

// rate is what was measured last, or else what is known so far.
func (m *meter) rate(now time.Duration) float64 {
	if m.last > 0 || now <= m.from {
		return m.last
	}
	return m.rateOver(now - m.from)
}

func (m *meter) rateOver(t time.Duration) float64 { return float64(m.n) / t.Seconds() }

func newDCQCN(l Limits) *dcqcn {
	d := &dcqcn{alpha: 1}
	d.start(l)
	return d
}

// Sent implements Control.
func (d *dcqcn) Sent(now time.Duration, n int) {
	d.sent.add(now, n)
	d.unheard = min(d.unheard+n, math.MaxInt32)
	if d.rate == 0 {
		return
	}
	d.catchUp(now)
	if d.raiseIn -= n; d.raiseIn <= 0 {
		d.raiseIn += raiseBytes
		d.byBytes = min(d.byBytes+1, 100)
		d.raise()
	}
	if d.rate > 0 {
		d.free = max(d.free, now-d.burst()) + d.took(n)
	}
}

// Acked implements Control.
func (d *dcqcn) Acked(now time.Duration, n int, sample time.Duration, rtt *RTT) {
	d.catchUp(now)
	d.window.Acked(now, n, sample, rtt)
	d.trip, d.heard, d.unheard = rtt.Smoothed(), now, 0
}

// took is how long n bytes take at the rate.
func (d *dcqcn) took(n int) time.Duration {
	return time.Duration(float64(n) / d.rate * float64(time.Second))
}

// quantum is how much time's worth is sent at once: a packet at least.
func (d *dcqcn) quantum() time.Duration { return max(paceQuantum, d.took(d.limits.Packet)) }

// burst is how much may be sent at once after a pause.
func (d *dcqcn) burst() time.Duration { return 2 * d.quantum() }

// Ready implements Control. Whoever has to wait waits until a quantum may be
// sent.
func (d *dcqcn) Ready(now time.Duration) time.Duration {
	if d.rate == 0 || d.free <= now {
		return now
	}
	return d.free + d.quantum() - d.took(d.limits.Packet)
}

// Window implements Control.
func (d *dcqcn) Window() int {
	if d.rate == 0 || d.loop == 0 {
		return d.size
	}
	trip := d.loop + max(d.loop/4, answerSlack)
	return min(d.size, max(int(d.rate*trip.Seconds()), leastPackets*d.limits.Packet))
}

// Notified implements Control.
func (d *dcqcn) Notified(now time.Duration, rtt *RTT) {
	d.catchUp(now)
	if d.rate == 0 {
		d.begin(now, rtt)
	}
	if d.trip = rtt.Smoothed(); d.loop == 0 {
		d.loop = rtt.Low()
	} else if d.byTime > 0 { // an end that slept for long is not the network
		d.loop = min(rtt.Low(), 2*d.loop)
	}
	d.byTime, d.byBytes = 0, 0
	d.raiseAt, d.raiseIn = now+d.raiseEvery(), raiseBytes
	period := d.period()
	d.alphaAt = now + period
	if now < d.cutAt {
		return // of what left before the last decrease
	}
	d.cutAt = now + period*9/10
	d.target = d.rate
	d.rate = max(d.rate*(1-d.alpha/2), slowest)
	g := gain(period)
	d.alpha = (1-g)*d.alpha + g
	d.threshold = min(d.threshold, d.size)
}

// begin begins to pace: with the rate at which the flow sends by itself, which is
// no more than a window in a round trip.
func (d *dcqcn) begin(now time.Duration, rtt *RTT) {
	d.rate = min(d.sent.rate(now), fastest)
	if own := float64(d.size) / rtt.Smoothed().Seconds(); rtt.Known() && (d.rate == 0 || d.rate > own) {
		d.rate = min(own, fastest)
	}
	d.alpha, d.cutAt, d.free = 1, now, now
}

// period is how often the estimate of congestion is made anew, and the rate
// decreased at most: the time until what was done shows, and a packet's at least.
func (d *dcqcn) period() time.Duration {
	return max(alphaInterval, d.loop, d.trip, d.took(d.limits.Packet))
}

// gain is the weight of one period in the estimate of congestion.
func gain(period time.Duration) float64 {
	return min(1-math.Pow(1-alphaGain, float64(period)/float64(alphaInterval)), mostGain)
}

// catchUp does what timers would have done since the last call.
func (d *dcqcn) catchUp(now time.Duration) {
	if d.rate == 0 {
		return
	}
	if d.silent(now) {
		d.alphaAt, d.raiseAt = max(d.alphaAt, now), max(d.raiseAt, now)
		if now-d.heard > longPause*d.raiseEvery() {
			d.rate = 0 // the network that was known is gone
		}
		return
	}
	if late := now - d.alphaAt; late >= 0 {
		period := d.period()
		n := 1 + late/period
		d.alpha *= math.Pow(1-gain(period), float64(n))
		d.alphaAt += n * period
	}
	for i := 0; d.rate > 0 && now >= d.raiseAt; i++ {
		d.raiseAt += d.raiseEvery()
		d.byTime = min(d.byTime+1, 100)
		d.raise()
		if i == longPause {
			d.rate = 0
		}
	}
}

// silent reports whether nothing was acknowledged for long: then nothing was
// marked either. Answers to READs, which are sent beyond the window, are not
// acknowledged.
func (d *dcqcn) silent(now time.Duration) bool {
	return d.loop > 0 && now-d.heard > silence*d.raiseEvery() && d.unheard <= d.size
}

// raiseEvery is the time between two increases.
func (d *dcqcn) raiseEvery() time.Duration { return max(raiseInterval, d.loop) }

// raise is one step of recovery or increase.
func (d *dcqcn) raise() {
	both, any := min(d.byTime, d.byBytes), max(d.byTime, d.byBytes)
	switch {
	case both > fastRecovery:
		d.target += hyperSteps * d.step()
	case any > longCalm: // what is left of the queue's length is old
		d.target += min(float64(any-longCalm)*d.step(), additive)
		d.loop -= max(d.loop-d.trip, 0) / 8
	case any > fastRecovery:
		d.target += d.step()
	}
	if any > fastRecovery {
		d.threshold = d.limits.Window // the window may follow
	}
	d.rate = (d.rate + d.target) / 2
	if d.rate > fastest {
		d.rate = 0
	}
}

// step is the additive increase: as a window grows, by a packet in each round
// trip, for all flows that share a path alike. Where round trips are not known
// it is a part of the rate, and who is fast is notified more often.
func (d *dcqcn) step() float64 {
	if d.loop == 0 {
		return min(additive, d.rate/rateShare)
	}
	return min(additive, float64(d.limits.Packet)/d.loop.Seconds())
}

// Timeout implements Control.
func (d *dcqcn) Timeout(now time.Duration) {
	d.window.Timeout(now)
	if d.rate > 0 {
		d.catchUp(now)
		d.rate = max(d.rate/2, slowest)
	}
}

// Rate implements Control.
func (d *dcqcn) Rate() float64 { return d.rate }
