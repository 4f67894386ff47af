package congestion

import (
	"math"
	"time"
)

// The parameters of DCQCN, as published by its authors (SIGCOMM 2015) if they do not depend on
// the line's rate. The published ones are for lines of 10 to 40 Gbit/s and round trips below
// 50 µs. On slower or longer paths, where an effect shows later, times are in round trips and
// steps in packets per round trip.
const (
	// NotifyInterval is the shortest time between two notifications of one queue pair.
	// After each alphaInterval without one the estimate of congestion decays.
	NotifyInterval = 50 * time.Microsecond
	alphaInterval  = 55 * time.Microsecond

	alphaGain = 1.0 / 256 // for each alphaInterval
	mostGain  = 1.0 / 16  // on longer paths

	raiseInterval = 300 * time.Microsecond // between two increases by time
	raiseBytes    = 10 << 20               // and by bytes sent
	fastRecovery  = 5                      // increases that each recover half
	silence       = 8                      // multiples of raiseInterval without an acknowledge: increases wait for one
	longPause     = 1000                   // multiples of raiseInterval, after which all measurements are dropped
	longCalm      = 6 * fastRecovery       // increases after which each is one step larger than the previous one

	additive   = 5e6 // bytes per second, at most: 40 Mbit/s
	rateShare  = 8   // the largest share of the rate that an increase may have, if round trips are unknown
	hyperSteps = 10  // additive increases in a hyper increase

	slowest = 125e3 // bytes per second: 1 Mbit/s
	fastest = 50e9  // from this rate on there is no pacing

	// A flow that had to wait sends paceQuantum at once, and twice that after a pause, because
	// a process has no finer timers.
	paceQuantum = 50 * time.Microsecond

	// answerSlack is how much later than the network permits answers may arrive before a paced
	// flow waits for them, because processes wait for their processors.
	answerSlack = 200 * time.Microsecond
)

// dcqcn is DCQCN's reaction point. Notifications decrease the rate by the estimated share
// of marked packets. Without them it recovers half of the decrease (fast recovery), then
// probes for more (additive, then hyper increase). Until the first notification there is
// no pace, as a process does not know the line's rate. DCQCN is made for networks without
// loss, so the loss-based window bounds the rate as well, and starts it slowly. A rate
// by itself would keep a standing queue: no more is in flight than the rate sends in the
// round trip at which marks begin.
type dcqcn struct {
	window
	pacer          // without a rate before the first notification
	target float64 // bytes per second

	firstAt time.Duration // first notification, from which periods count; see Tuning.Decrease
	dueAt   time.Duration // end of a period with notifications; 0 without

	alpha   float64
	cutAt   time.Duration // the effect of the last decrease shows from then on
	alphaAt time.Duration // alpha decays next
	raiseAt time.Duration // the rate is raised next by time
	raiseIn int           // bytes until it is raised by what was sent
	byTime  uint8         // increases since the last decrease
	byBytes uint8

	trip time.Duration // smoothed round trip, 0 while it is not known
	loop time.Duration // smallest recent round trip when marking began

	heard   time.Duration // when something was acknowledged last
	unheard int           // bytes sent since

	sent meter
}

// A meter measures the rate of a flow.
type meter struct {
	from time.Duration
	n    int
	last float64 // bytes per second, as measured last
}

func (m *meter) add(now time.Duration, n int) {
	if m.n == 0 {
		m.from = now
	}
	if t := now - m.from; t >= 2*raiseInterval {
		m.from, m.n = now, 0 // a pause does not count
	} else if t >= raiseInterval/2 {
		m.last = m.rateOver(t)
		m.from, m.n = now, 0
	}
	m.n += n
}

// rate returns the last measurement, or an estimate if there is none yet.
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
func (d *dcqcn) Sent(now time.Duration, n int, _ int64) {
	d.sent.add(now, n)
	d.unheard = min(d.unheard+n, math.MaxInt32)
	if d.catchUp(now); d.rate == 0 {
		return
	}
	if d.raiseIn -= n; d.raiseIn <= 0 {
		d.raiseIn += d.raiseBytes()
		d.byBytes = min(d.byBytes+1, 100)
		d.raise()
	}
	if d.rate > 0 {
		d.pass(now, n, d.burst())
	}
}

// Acked implements Control.
func (d *dcqcn) Acked(now time.Duration, n int, sample time.Duration, rtt *RTT) {
	d.catchUp(now)
	d.window.Acked(now, n, sample, rtt)
	d.trip, d.heard, d.unheard = rtt.Smoothed(), now, 0
}

// quantum returns the duration of the data that is sent at once: at least one packet.
func (d *dcqcn) quantum() time.Duration { return max(d.limits.quantum(), d.took(d.limits.Packet)) }

// burst returns how much may be sent at once after a pause.
func (d *dcqcn) burst() time.Duration { return 2 * d.quantum() }

// Ready implements Control.
func (d *dcqcn) Ready(now time.Duration) time.Duration {
	return d.ready(now, d.quantum(), d.limits.Packet)
}

// Window implements Control.
func (d *dcqcn) Window() int {
	if d.rate == 0 || d.loop == 0 || d.published() {
		return d.size
	}
	trip := d.loop + max(d.loop/4, answerSlack)
	return min(d.size, max(int(d.rate*trip.Seconds()), leastPackets*d.limits.Packet))
}

// Notified implements Control.
func (d *dcqcn) Notified(now time.Duration, rtt *RTT) {
	d.catchUp(now)
	if d.rate == 0 && !d.begin(now, rtt) {
		return
	}
	if d.trip = rtt.Smoothed(); d.loop == 0 {
		d.loop = rtt.Low()
	} else if d.byTime > 0 { // a long pause of an end is not the network
		d.loop = min(rtt.Low(), 2*d.loop)
	}
	period := d.period()
	d.alphaAt = now + period
	if t := d.limits.Tuning; t != nil && t.Decrease != 0 {
		d.delay(now, t.Decrease)
		return
	}
	d.restart(now)
	if now < d.cutAt {
		return // it concerns packets sent before the last decrease
	}
	d.cutAt = now + period*9/10
	d.target = d.rate
	d.decrease(period)
}

// delay decreases the rate at the end of a period, as adapters do.
func (d *dcqcn) delay(now, every time.Duration) {
	if d.dueAt != 0 {
		return
	}
	if d.firstAt == 0 {
		d.firstAt, d.target = now, d.rate
		d.restart(now)
		d.raiseAt = math.MaxInt64 // nothing was decreased
	}
	d.dueAt = d.firstAt + ((now-d.firstAt)/every+1)*every
}

// restart counts increases, and the time and bytes until the next one, from now on.
func (d *dcqcn) restart(now time.Duration) {
	d.byTime, d.byBytes = 0, 0
	d.raiseAt, d.raiseIn = now+d.raiseEvery(), d.raiseBytes()
}

// decrease decreases the rate, and notes a period with notifications in the estimate of congestion.
func (d *dcqcn) decrease(period time.Duration) {
	d.rate = max(d.rate*(1-d.alpha/2), slowest)
	g := gain(period)
	d.alpha = (1-g)*d.alpha + g
	d.threshold = min(d.threshold, d.size)
}

// begin starts pacing, with the rate of the line if that is known, otherwise with the one that the flow has
// now, at most a window per round trip. It reports false if nothing was sent that a notification can be about.
func (d *dcqcn) begin(now time.Duration, rtt *RTT) bool {
	d.rate = min(d.sent.rate(now), fastest)
	if own := float64(d.size) / rtt.Smoothed().Seconds(); rtt.Known() && (d.rate == 0 || d.rate > own) {
		d.rate = min(own, fastest)
	}
	if d.rate == 0 {
		return false
	}
	d.rate = max(d.rate, slowest)
	if line := d.limits.line(); line != 0 {
		d.rate = line
	}
	d.alpha, d.cutAt, d.free = 1, now, now
	d.firstAt, d.dueAt = 0, 0
	return true
}

// period returns the time between two estimates of congestion, and at least between two
// decreases: until the effect of the last decrease shows, and at least the time of a
// packet.
func (d *dcqcn) period() time.Duration {
	if d.published() {
		return alphaInterval
	}
	return max(alphaInterval, d.loop, d.trip, d.took(d.limits.Packet))
}

// gain returns the weight of one period in the estimate of congestion.
func gain(period time.Duration) float64 {
	return min(1-math.Pow(1-alphaGain, float64(period)/float64(alphaInterval)), mostGain)
}

// catchUp does what timers would have done since the last call.
func (d *dcqcn) catchUp(now time.Duration) {
	if at := d.dueAt; at != 0 && at <= now {
		d.dueAt = 0
		if d.expire(at); d.rate == 0 {
			return
		}
		if d.byTime > 0 {
			d.target = d.rate
		}
		d.restart(at)
		d.decrease(d.period())
	}
	d.expire(now)
}

// expire does what the timers of increases and of the estimate of congestion would have done.
func (d *dcqcn) expire(now time.Duration) {
	if d.rate == 0 {
		return
	}
	if d.silent(now) {
		d.alphaAt, d.raiseAt = max(d.alphaAt, now), max(d.raiseAt, now)
		if now-d.heard > longPause*d.raiseEvery() {
			d.rate = 0 // the measurements are too old
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

// silent reports whether nothing was acknowledged for a long time, so that no packet was
// marked either. Answers to READs, which are sent beyond the window, are not acknowledged.
func (d *dcqcn) silent(now time.Duration) bool {
	return d.loop > 0 && !d.published() && now-d.heard > silence*d.raiseEvery() && d.unheard <= d.size
}

// published reports whether times are those of the authors on any path.
func (d *dcqcn) published() bool { return d.limits.Tuning != nil && d.limits.Tuning.Raise != 0 }

// raiseEvery returns the time between two increases.
func (d *dcqcn) raiseEvery() time.Duration {
	if d.published() {
		return d.limits.Tuning.Raise
	}
	return max(raiseInterval, d.loop)
}

// raiseBytes returns how much is sent between two increases.
func (d *dcqcn) raiseBytes() int {
	if t := d.limits.Tuning; t != nil && t.Bytes != 0 {
		return t.Bytes
	}
	return raiseBytes
}

// raise is one step of recovery or increase.
func (d *dcqcn) raise() {
	both, any := min(d.byTime, d.byBytes), max(d.byTime, d.byBytes)
	switch {
	case both > fastRecovery:
		d.target += hyperSteps * d.step()
	case any > longCalm && !d.published(): // the measured queue is old
		d.target += min(float64(any-longCalm)*d.step(), additive)
		d.loop -= max(d.loop-d.trip, 0) / 8
	case any > fastRecovery:
		d.target += d.step()
	}
	if any > fastRecovery {
		d.threshold = d.limits.Window // the window may follow
	}
	if line := d.limits.line(); line != 0 {
		d.target = min(d.target, line)
	}
	d.rate = (d.rate + d.target) / 2
	if d.rate > fastest {
		d.rate = 0
	}
}

// step returns the additive increase. As a window it grows by a packet per round trip, equally
// for all flows of a path. If round trips are unknown it is a share of the rate; faster flows
// are notified more often.
func (d *dcqcn) step() float64 {
	if t := d.limits.Tuning; t != nil && t.Step != 0 {
		return t.Step
	}
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

// Paces implements Control.
func (d *dcqcn) Paces() bool { return true }
