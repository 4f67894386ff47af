package congestion

import (
	"math"
	"testing"
	"time"
)

// sending runs a flow of 1.25 GB/s and returns the end time.
func sending(d *dcqcn) (now time.Duration) {
	for now < 10*time.Millisecond {
		now += 4160 * time.Nanosecond * 8 / 10
		d.Sent(now, testPacket, 0)
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
}

// A flow that begins shortly after time 0 is measured from its first packet on, as one that begins late.
func TestRateIsMeasuredFromTheFirstPacketOn(t *testing.T) {
	const gap = 4 * time.Microsecond
	for _, begin := range []time.Duration{0, 1, 140 * time.Microsecond, 160 * time.Microsecond, time.Second} {
		var m meter
		now := begin
		for range 25 {
			m.add(now, testPacket)
			now += gap
		}
		if want := testPacket / gap.Seconds(); !near(m.rate(now), want, .01) {
			t.Errorf("begins at %v: %.0f bytes per second, expected %.0f", begin, m.rate(now), want)
		}
	}
}

// Adapters decrease the rate at the end of a period with notifications, and keep what it recovers to while no
// increase by time has come. As published, a notification decreases it at once.
func TestDCQCNDecreasesAsAdaptersDo(t *testing.T) {
	const us = time.Microsecond
	tuning := PaperTuning()
	tuning.Decrease = 50 * us
	l := testLimits
	l.Tuning = &tuning
	d, rtt := newDCQCN(l), steady(20*us)
	begin := sending(d)
	d.Notified(begin, rtt)
	rate := d.Rate()
	if !near(rate, 1.25e9, .1) {
		t.Fatalf("the rate is %v", rate)
	}
	for _, c := range []struct {
		at           time.Duration
		notified     bool
		rate, target float64
		what         string
	}{
		{49 * us, true, 1, 1, "before the end of the period"},
		{51 * us, false, .5, 1, "after it"},
		{60 * us, true, .5, 1, "second period"},
		{101 * us, false, .25, 1, "after it, without an increase"},
		{156 * us, false, .625, 1, "after an increase by time"},
		{160 * us, true, .625, 1, "fourth period"},
		{201 * us, false, .3125, .625, "after it, with an increase before"},
		{270 * us, false, .46875, .625, "recovers"},
	} {
		if d.Sent(begin+c.at, 0, 0); c.notified {
			d.Notified(begin+c.at, rtt)
		}
		if got, target := d.rate/rate, d.target/rate; math.Abs(got-c.rate) > .01 || math.Abs(target-c.target) > .01 {
			t.Errorf("%v, %s: rate %.3f and target %.3f of the first one, expected %.3f and %.3f", c.at, c.what, got, target, c.rate, c.target)
		}
	}
}

// Marks from before a decrease took effect do not cause another one.
func TestDCQCNDecreasesOnceInARoundTrip(t *testing.T) {
	for _, c := range []struct {
		rtt  RTT
		trip time.Duration
	}{{*calm(), 100 * time.Microsecond}, {RTT{}, alphaInterval}} {
		d := newDCQCN(testLimits)
		now := sending(d)
		d.Notified(now, &c.rtt)
		r := d.Rate()
		if d.Notified(now+c.trip/2, &c.rtt); d.Rate() != r {
			t.Errorf("rate %v half of %v after a decrease to %v", d.Rate(), c.trip, r)
		}
		if d.Notified(now+c.trip, &c.rtt); !near(d.Rate(), r/2, 0.01) {
			t.Errorf("rate %v a round trip after a decrease to %v", d.Rate(), r)
		}
	}
}

// The longer it takes until marks show, the less is added at a time.
func TestDCQCNStepsArePacketsInARoundTrip(t *testing.T) {
	for _, c := range []struct {
		trip time.Duration
		want float64
	}{{100 * time.Microsecond, additive}, {5 * time.Millisecond, testPacket / .005}, {50 * time.Millisecond, testPacket / .05}} {
		var rtt RTT
		rtt.Sample(0, c.trip)
		d := newDCQCN(testLimits)
		now := sending(d)
		d.Notified(now, &rtt)
		for range fastRecovery {
			now += max(raiseInterval, c.trip)
			d.Acked(now, 0, 0, &rtt)
			d.catchUp(now)
		}
		before := d.target
		d.catchUp(now + max(raiseInterval, c.trip) - 1)
		if d.target != before {
			t.Errorf("round trip %v: raised twice in it", c.trip)
		}
		if d.catchUp(now + max(raiseInterval, c.trip)); !near(d.target-before, c.want, 1e-6) {
			t.Errorf("round trip %v: a step of %v, expected %v", c.trip, d.target-before, c.want)
		}
	}
}

// A silent peer has received no marks either.
func TestDCQCNRaisesNothingInSilence(t *testing.T) {
	d := newDCQCN(testLimits)
	now := sending(d)
	d.Notified(now, calm())
	d.Acked(now, testPacket, 0, calm())
	rate := d.rate
	now += 100 * raiseInterval
	d.Acked(now, testPacket, 0, calm())
	if d.rate != rate || d.byTime != 0 {
		t.Errorf("raised from %v to %v, %d times, by an answer after long silence", rate, d.rate, d.byTime)
	}
	now += raiseInterval
	if d.Acked(now, testPacket, 0, calm()); d.byTime == 0 {
		t.Error("not raised when the peer was back")
	}
}

// A flow that answers READs gets no acknowledges.
func TestDCQCNRaisesWhereNothingIsAcknowledged(t *testing.T) {
	d := newDCQCN(testLimits)
	now := sending(d)
	d.Notified(now, calm())
	for rate := d.rate; d.rate <= rate*3/2; now += raiseInterval {
		d.Sent(now, 16*testPacket, 0)
		if now > time.Second {
			t.Fatalf("rate %v, %v at the notification", d.rate, rate)
		}
	}
}

// An end that sleeps for long does not indicate a slow network.
func TestDCQCNForgetsALongSleep(t *testing.T) {
	var rtt RTT
	rtt.Sample(0, time.Millisecond)
	d := newDCQCN(testLimits)
	now := sending(d)
	d.Notified(now, &rtt)
	now += time.Second
	rtt.Sample(now, 50*time.Millisecond)
	d.byTime = 1
	if d.Notified(now, &rtt); d.loop != 2*time.Millisecond {
		t.Errorf("a round trip of %v after one of 1ms makes %v", rtt.Low(), d.loop)
	}
	last(&rtt, now, time.Millisecond)
	d.byTime = 1
	if d.Notified(now+time.Millisecond, &rtt); d.loop != time.Millisecond {
		t.Errorf("round trips of %v make %v", rtt.Low(), d.loop)
	}
}

// No more is in flight than the rate sends in a round trip, with some slack.
func TestDCQCNLimitsBytesInFlight(t *testing.T) {
	d := newDCQCN(testLimits)
	now := sending(d)
	before := d.Window()
	var rtt RTT
	const trip = time.Millisecond
	for rtt.Sample(now, trip); d.Rate() != slowest; now += trip {
		d.Notified(now, &rtt)
		want := min(d.Rate()*(trip+trip/4).Seconds(), float64(before))
		if want = max(want, leastPackets*testPacket); !near(float64(d.Window()), want, 0.01) {
			t.Fatalf("window %d at %v bytes/s, expected %v", d.Window(), d.Rate(), want)
		}
	}
}

// Fast recovery halves the distance to the rate before the decrease five times. Then the
// target rises by a step.
func TestDCQCNRecoversThenProbes(t *testing.T) {
	d := newDCQCN(testLimits)
	now := sending(d)
	d.Notified(now, calm())
	before, cut := d.target, d.rate
	for i := range fastRecovery {
		now += raiseInterval
		d.Acked(now, 0, 0, calm())
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
	if d.target != before+additive+hyperSteps*additive {
		t.Fatalf("target %v, expected a step of %v", d.target, hyperSteps*additive)
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
	d.Sent(now, testPacket, 0)
	if d.Rate() != 0 || d.Ready(now) > now {
		t.Fatalf("rate %v after a minute's silence", d.Rate())
	}
}

// A sender that calls Ready before each packet keeps to the rate within a burst, whenever it
// calls.
func TestDCQCNPacesToItsRate(t *testing.T) {
	for _, step := range []time.Duration{time.Microsecond, 30 * time.Microsecond} {
		d := newDCQCN(testLimits)
		start := sending(d)
		d.Notified(start, calm())
		rate := d.Rate()
		sent, now := 0, start
		for ; now < start+raiseInterval; now += step {
			for d.Ready(now) <= now {
				d.Sent(now, testPacket, 0)
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
		d.Sent(now, testPacket, 0)
	}
	at, n := d.Ready(now), 0
	for d.Ready(at) <= at {
		d.Sent(at, testPacket, 0)
		n++
	}
	if want := int(d.Rate() * paceQuantum.Seconds() / testPacket); n < want || n > want+2 {
		t.Fatalf("%d packets at once after %v, expected about %d", n, at-now, want)
	}
}

// A notification before anything was sent is about nothing, and one of a slow flow does not make it slower than the slowest rate.
func TestDCQCNNotifiedTooEarlyIsNotSlowed(t *testing.T) {
	d := newDCQCN(testLimits)
	d.Notified(0, &RTT{})
	if d.Rate() != 0 {
		t.Errorf("a rate of %v before anything was sent", d.Rate())
	}
	rtt := steady(4 * time.Second)
	d.Sent(time.Second, 100, 100)
	d.Acked(5*time.Second, 100, 4*time.Second, rtt)
	d.Notified(5*time.Second, rtt)
	for now := 5 * time.Second; now < 6*time.Second; now += time.Millisecond {
		if d.Sent(now, 100, 100); d.Rate() < slowest {
			t.Fatalf("a rate of %v", d.Rate())
		}
	}
}

// A flow whose measurements have become too old during a pause is not paced by what was sent since.
func TestDCQCNBytesDoNotPaceAFlowWithoutRate(t *testing.T) {
	d := newDCQCN(testLimits)
	rtt := steady(time.Millisecond)
	now := time.Second
	d.Sent(now, testPacket, testPacket)
	d.Acked(now, testPacket, time.Millisecond, rtt)
	d.Notified(now, rtt)
	if d.Rate() == 0 {
		t.Fatal("no rate after a notification")
	}
	d.Sent(now+time.Minute, raiseBytes, raiseBytes)
	if d.Rate() != 0 {
		t.Errorf("a rate of %v after a minute", d.Rate())
	}
}
