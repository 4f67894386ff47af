package congestion

import (
	"math"
	"testing"
	"time"
)

// sending is a flow of 1.25 GB/s up to the time returned.
func sending(d *dcqcn) (now time.Duration) {
	for now < 10*time.Millisecond {
		now += 4160 * time.Nanosecond * 8 / 10
		d.Sent(now, testPacket)
	}
	return now
}

func near(got, want, within float64) bool { return math.Abs(got-want) <= within*want }

func TestDCQCNFirstNotificationHalvesTheMeasuredRate(t *testing.T) {
	d := newDCQCN(testLimits)
	now := sending(d)
	if d.Rate() != 0 || d.Ready(now) != now {
		t.Fatalf("paced at %v before any notification", d.Rate())
	}
	d.Notified(now, calm())
	if !near(d.Rate(), 1.25e9/2, 0.05) {
		t.Fatalf("rate %v, expected half of 1.25e9", d.Rate())
	}
	r := d.Rate()
	d.Notified(now+NotifyInterval, calm())
	if !near(d.Rate(), r/2, 0.01) {
		t.Fatalf("rate %v after a second notification, before %v", d.Rate(), r)
	}
}

// Fast recovery halves the way back to the rate before the decrease five
// times; then the target rises by a step.
func TestDCQCNRecoversThenProbes(t *testing.T) {
	d := newDCQCN(testLimits)
	now := sending(d)
	d.Notified(now, calm())
	before, cut := d.target, d.rate
	for i := range fastRecovery {
		now += raiseInterval
		d.catchUp(now)
		want := before - (before-cut)/math.Pow(2, float64(i+1))
		if !near(d.rate, want, 1e-6) {
			t.Fatalf("increase %d: rate %v, expected %v", i+1, d.rate, want)
		}
	}
	now += raiseInterval
	d.catchUp(now)
	if d.target != before+additive {
		t.Fatalf("target %v, expected %v", d.target, before+additive)
	}
	d.byBytes = fastRecovery + 1
	now += raiseInterval
	d.catchUp(now)
	if d.target != before+additive+hyper {
		t.Fatalf("target %v, expected a step of %v", d.target, hyper)
	}
}

func TestDCQCNCongestionEstimateDecaysWithoutNotifications(t *testing.T) {
	d := newDCQCN(testLimits)
	now := sending(d)
	d.Notified(now, calm())
	a := d.alpha
	d.catchUp(now + 256*alphaInterval)
	if !near(d.alpha, a/math.E, 0.02) {
		t.Fatalf("alpha %v after 256 intervals, before %v", d.alpha, a)
	}
}

func TestDCQCNForgetsItsPaceAfterALongPause(t *testing.T) {
	d := newDCQCN(testLimits)
	now := sending(d)
	d.Notified(now, calm())
	now += time.Minute
	d.Sent(now, testPacket)
	if d.Rate() != 0 || d.Ready(now) > now {
		t.Fatalf("rate %v after a minute's silence", d.Rate())
	}
}

// A sender that asks Ready before each packet keeps to the rate within a burst,
// whatever the times at which it asks.
func TestDCQCNPacesToItsRate(t *testing.T) {
	for _, step := range []time.Duration{time.Microsecond, 30 * time.Microsecond} {
		d := newDCQCN(testLimits)
		start := sending(d)
		d.Notified(start, calm())
		rate := d.Rate()
		sent, now := 0, start
		for ; now < start+raiseInterval; now += step {
			for d.Ready(now) <= now {
				d.Sent(now, testPacket)
				sent += testPacket
			}
		}
		want := rate * (now - start).Seconds()
		if burst := rate * d.burst().Seconds(); float64(sent) > want+burst+testPacket || float64(sent) < want*0.8 {
			t.Errorf("asked every %v: %d bytes, expected %.0f and a burst of %.0f", step, sent, want, burst)
		}
	}
}

func TestDCQCNWaitsForAQuantum(t *testing.T) {
	d := newDCQCN(testLimits)
	now := sending(d)
	d.Notified(now, calm())
	for d.Ready(now) <= now {
		d.Sent(now, testPacket)
	}
	at, n := d.Ready(now), 0
	for d.Ready(at) <= at {
		d.Sent(at, testPacket)
		n++
	}
	if want := int(d.Rate() * paceQuantum.Seconds() / testPacket); n < want || n > want+2 {
		t.Fatalf("%d packets at once after %v, expected about %d", n, at-now, want)
	}
}
