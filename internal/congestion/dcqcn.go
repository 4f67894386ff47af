package congestion

import (
	"math"
	"time"
)

// The parameters of DCQCN, as published by its authors (SIGCOMM 2015) where
// they do not depend on the line's rate.
const (
	// NotifyInterval is the shortest time between two notifications of one
	// queue pair, and alphaInterval how long without any lets the estimate of
	// congestion decay.
	NotifyInterval = 50 * time.Microsecond
	alphaInterval  = 55 * time.Microsecond

	alphaGain = 1.0 / 256

	raiseInterval = 300 * time.Microsecond // between two increases by time
	raiseBytes    = 10 << 20               // and by bytes sent
	fastRecovery  = 5                      // increases that halve the way back

	additive = 5e6  // bytes per second: 40 Mbit/s
	hyper    = 50e6 // 400 Mbit/s

	slowest = 1e6  // bytes per second
	fastest = 50e9 // from here on there is no pace

	// A flow that had to wait sends paceQuantum at once, and twice that after
	// a pause: timers of a process are no finer.
	paceQuantum = 50 * time.Microsecond
)

// dcqcn is DCQCN's reaction point: notifications decrease the rate by the
// estimated share of marked packets; without them it recovers half of what it
// lost (fast recovery), then probes for more (additive, then hyper increase).
// Until the first notification there is no pace, as a line's rate is not known
// to a process. The window of losses bounds it besides, and lets it start
// slowly: DCQCN is made for networks that lose nothing.
type dcqcn struct {
	window
	rate, target float64 // bytes per second, 0 before the first notification
	alpha        float64
	alphaAt      time.Duration // alpha decays next
	raiseAt      time.Duration // the rate is raised next by time
	raiseIn      int           // bytes until it is raised by what was sent
	byTime       uint8         // increases since the last decrease
	byBytes      uint8

	free   time.Duration // when all that was sent has left at the rate
	sentAt time.Duration // the rate is measured from here on
	sent   int
	late   float64 // measured last
}

func newDCQCN(l Limits) *dcqcn {
	d := &dcqcn{alpha: 1}
	d.start(l)
	return d
}

// Sent implements Control.
func (d *dcqcn) Sent(now time.Duration, n int) {
	d.measure(now, n)
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

// measure follows the rate at which the flow sends by itself, where the first
// decrease begins.
func (d *dcqcn) measure(now time.Duration, n int) {
	if t := now - d.sentAt; t >= 2*raiseInterval {
		d.sentAt, d.sent = now, 0
	} else if t >= raiseInterval/2 {
		d.late = float64(d.sent) / t.Seconds()
		d.sentAt, d.sent = now, 0
	}
	d.sent += n
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

// Notified implements Control.
func (d *dcqcn) Notified(now time.Duration, rtt *RTT) {
	d.catchUp(now)
	if d.rate == 0 {
		d.rate = d.late
		if t := now - d.sentAt; d.rate == 0 && t > 0 {
			d.rate = float64(d.sent) / t.Seconds()
		}
		if d.rate == 0 && rtt.Known() {
			d.rate = float64(d.size) / rtt.Smoothed().Seconds()
		}
		d.rate = min(d.rate, fastest)
		d.alpha, d.free = 1, now
	}
	d.target = d.rate
	d.rate = max(d.rate*(1-d.alpha/2), slowest)
	d.alpha = (1-alphaGain)*d.alpha + alphaGain
	d.alphaAt, d.raiseAt, d.raiseIn = now+alphaInterval, now+raiseInterval, raiseBytes
	d.byTime, d.byBytes = 0, 0
}

// catchUp does what timers would have done since the last call.
func (d *dcqcn) catchUp(now time.Duration) {
	if d.rate == 0 {
		return
	}
	if late := now - d.alphaAt; late >= 0 {
		n := 1 + late/alphaInterval
		d.alpha *= math.Pow(1-alphaGain, float64(n))
		d.alphaAt += n * alphaInterval
	}
	for i := 0; d.rate > 0 && now >= d.raiseAt; i++ {
		d.raiseAt += raiseInterval
		d.byTime = min(d.byTime+1, 100)
		d.raise()
		if i == 1000 { // a long pause: the network that was known is gone
			d.rate = 0
		}
	}
}

// raise is one step of recovery or increase.
func (d *dcqcn) raise() {
	switch both, any := min(d.byTime, d.byBytes), max(d.byTime, d.byBytes); {
	case both > fastRecovery:
		d.target += hyper
	case any > fastRecovery:
		d.target += additive
	}
	d.rate = (d.rate + d.target) / 2
	if d.rate > fastest {
		d.rate = 0
	}
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
