package congestion

import (
	"math"
	"testing"
	"time"
)

// TestPaperTuningFollowsThePublishedTimes has DCQCN begin with a whole window and recover as published
// (SIGCOMM 2015, figure 7 and table 14): half of the way back every 55 µs five times, then steps of 40
// Mbit/s, whatever the round trip is.
func TestPaperTuningFollowsThePublishedTimes(t *testing.T) {
	tuning := PaperTuning()
	l := testLimits
	l.Tuning = &tuning
	for _, trip := range []time.Duration{10 * time.Microsecond, 5 * time.Millisecond} {
		d := newDCQCN(l)
		if d.Window() != l.Window {
			t.Errorf("begins with %d bytes, expected the window, %d", d.Window(), l.Window)
		}
		rtt := steady(trip)
		now := time.Second
		d.Acked(now, testPacket, trip, rtt)
		d.Notified(now, rtt)
		d.rate, d.target, d.alpha, d.cutAt = 1e9, 1e9, 1, now
		d.Notified(now, rtt)
		if d.rate != .5e9 || d.target != 1e9 {
			t.Fatalf("rate %v, target %v after a notification", d.rate, d.target)
		}
		want, target := .5e9, 1e9
		for i := range 12 {
			now += 55 * time.Microsecond
			if i >= fastRecovery {
				target += 5e6
			}
			want = (want + target) / 2
			if d.catchUp(now); math.Abs(d.rate-want) > 1 {
				t.Errorf("round trip %v, increase %d: rate %.0f, expected %.0f", trip, i+1, d.rate, want)
			}
		}
		d.Sent(now, tuning.Bytes, testPacket)
		if d.byBytes != 1 {
			t.Errorf("%d increases by bytes after %d bytes", d.byBytes, tuning.Bytes)
		}
	}
}

// A flow that shares its line with others begins with the rate of the line, and recovers to it.
func TestDCQCNBeginsWithTheKnownLine(t *testing.T) {
	tuning := PaperTuning()
	tuning.Line = 4e9
	l := testLimits
	l.Tuning = &tuning
	d, rtt := newDCQCN(l), steady(20*time.Microsecond)
	now := sending(d) // a third of that
	d.Notified(now, rtt)
	if d.rate != tuning.Line/2 || d.target != tuning.Line {
		t.Errorf("rate %v and target %v of the line", d.rate/tuning.Line, d.target/tuning.Line)
	}
	d.catchUp(now + 100*tuning.Raise)
	if d.target != tuning.Line || !near(d.rate, tuning.Line, .001) {
		t.Errorf("recovers to %v and the target %v of the line", d.rate/tuning.Line, d.target/tuning.Line)
	}
}

// A flow without a timer leaves packet by packet, and one with a process's in quanta.
func TestQuantumOfATuning(t *testing.T) {
	l := testLimits
	for _, c := range []struct {
		tuning *Tuning
		want   time.Duration
	}{{nil, paceQuantum}, {&Tuning{}, paceQuantum}, {&Tuning{Quantum: 1}, testPacket * time.Nanosecond}, {&Tuning{Quantum: time.Second}, time.Second}} {
		l.Tuning = c.tuning
		d, h, y := newDCQCN(l), newHPCC(l), newTimely(l)
		d.rate, h.rate, y.rate = 1e9, 1e9, 1e9
		for _, got := range []time.Duration{d.quantum(), h.quantum(), y.quantum()} {
			if got != c.want {
				t.Errorf("%+v: %v, expected %v", c.tuning, got, c.want)
			}
		}
	}
}

// A known round trip takes the place of the measured one, in which there may be a queue.
func TestTripOfATuningReplacesTheMeasuredOne(t *testing.T) {
	l := testLimits
	l.Tuning = &Tuning{Trip: 12 * time.Microsecond}
	rtt := steady(time.Millisecond)
	h := newHPCC(l)
	if h.Telemetry(0, []Hop{{Rate: 12.5e9}}, rtt); h.size != 150e3 {
		t.Errorf("HPCC begins with %v bytes, expected what fits into the path, 150000", h.size)
	}
	s := newSwift(l)
	s.size = 200
	s.Acked(time.Second, testPacket, 100*time.Microsecond, rtt)
	if s.size >= 200 {
		t.Errorf("Swift does not shrink at 100 µs, far above its target")
	}
	if l.least(&RTT{}) != 0 {
		t.Error("the round trip is known before the first sample")
	}
}
