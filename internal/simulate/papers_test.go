package simulate

import (
	"strings"
	"testing"
	"time"

	"softrdma/internal/simulate/scenario"
	"softrdma/internal/simulate/scenarios"
)

// shortened returns a scenario of softrdma with changes of its text.
func shortened(t *testing.T, name string, changes ...string) *scenario.Scenario {
	t.Helper()
	b, ok := scenarios.Text(name)
	if !ok {
		t.Fatal(name)
	}
	text := string(b)
	for i := 0; i < len(changes); i += 2 {
		if !strings.Contains(text, changes[i]) {
			t.Fatalf("%s has no %q", name, changes[i])
		}
		text = strings.Replace(text, changes[i], changes[i+1], 1)
	}
	return parse(t, text)
}

// published runs some variants of a scenario, by their names.
func published(t *testing.T, s *scenario.Scenario, names ...string) map[string]*Result {
	t.Helper()
	all := map[string]*Result{}
	for i := range s.Variants {
		v := &s.Variants[i]
		for _, n := range names {
			if n != v.Name {
				continue
			}
			x, err := Run(s, v, s.Seed, 1, nil)
			if err != nil {
				t.Fatal(err)
			}
			all[n] = x
		}
	}
	if len(all) != len(names) {
		t.Fatalf("%d variants of %q", len(all), names)
	}
	return all
}

// rates returns the lowest rate of a traffic's streams in Gbit/s, and the highest.
func rates(x *Result, traffic int) (low, high float64) {
	low = 1e9
	for _, s := range x.Streams {
		if s.Traffic == traffic {
			low, high = min(low, gigabits(s.Rate)), max(high, gigabits(s.Rate))
		}
	}
	return low, high
}

// TestDeadlockNeedsFullLinks has the result of HotNets 2016: the same circle of pauses is a deadlock, or
// none, by the rate of the streams. A watchdog ends it, and without pauses there is none.
func TestDeadlockNeedsFullLinks(t *testing.T) {
	s := shortened(t, "pfc-deadlock", "duration: 20ms", "duration: 2ms", "warm: 10ms", "warm: 1ms")
	all := published(t, s, "PFC", "PFC, hosts at half speed", "PFC, watchdog")
	if x := all["PFC"]; x.Deadlock != 5 || gigabits(x.Streams[0].Rate) != 0 || x.Paused.Duration() < 5*time.Millisecond {
		t.Errorf("with PFC: %d queues wait for each other, paused for %v, %+v", x.Deadlock, x.Paused.Duration(), x.Streams)
	}
	if x := all["PFC, hosts at half speed"]; x.Deadlock != 0 || gigabits(x.Streams[0].Rate) < 18 {
		t.Errorf("at half speed: %d queues wait for each other, %+v", x.Deadlock, x.Streams)
	}
	if x := all["PFC, watchdog"]; x.Storms == 0 || gigabits(x.Streams[0].Rate) == 0 {
		t.Errorf("with a watchdog: %d storms, %+v", x.Storms, x.Streams)
	}
}

// TestStormStopsVictimsUntilTheWatchdog has a host that pauses without an end (SIGCOMM 2016).
func TestStormStopsVictimsUntilTheWatchdog(t *testing.T) {
	s := shortened(t, "pfc-storm", "duration: 20ms", "duration: 6ms", "warm: 5ms", "warm: 5ms", "start: 2ms", "start: 1ms")
	all := published(t, s, "PFC", "PFC, watchdog that drops")
	if low, high := rates(all["PFC"], 2); high != 0 || all["PFC"].Deadlock != 0 {
		t.Errorf("with PFC victims have %.2f to %.2f Gbit/s", low, high)
	}
	if low, _ := rates(all["PFC, watchdog that drops"], 2); low < 1 || all["PFC, watchdog that drops"].Storms == 0 {
		t.Errorf("with a watchdog victims have %.2f Gbit/s and more", low)
	}
}

// TestMarkingDecidesTheParkingLot has the result of SIGCOMM 2015: a stream over two busy links gets less than
// its share, and much less if marks begin at once.
func TestMarkingDecidesTheParkingLot(t *testing.T) {
	s := shortened(t, "dcqcn-parking-lot", "duration: 100ms", "duration: 50ms", "warm: 50ms", "warm: 25ms")
	all := published(t, s, "DCQCN, cut-off at 40 KiB", "DCQCN, RED")
	cut, _ := rates(all["DCQCN, cut-off at 40 KiB"], 1)
	red, _ := rates(all["DCQCN, RED"], 1)
	if cut > 14 || red < cut+1 || red > 19 {
		t.Errorf("the stream over both links has %.2f Gbit/s with a cut-off and %.2f with RED", cut, red)
	}
}

// TestTelemetryEndsTheQueueOfAnIncast has the result of SIGCOMM 2019: HPCC's queue of the start is shorter than
// DCQCN's, soon gone, and the link stays in use.
func TestTelemetryEndsTheQueueOfAnIncast(t *testing.T) {
	s := shortened(t, "hpcc-incast", "duration: 5ms", "duration: 800us", "start: 1ms", "start: 200us")
	all := published(t, s, "HPCC", "DCQCN")
	h, d := all["HPCC"], all["DCQCN"]
	most := 0
	for _, x := range h.Samples {
		if at := x.At.Duration(); at > 600*time.Microsecond && at < 800*time.Microsecond {
			most = max(most, x.Queue)
		}
	}
	if h.QueuePeak >= d.QueuePeak || most > 200_000 || gigabits(h.Goodput) < 80 {
		t.Errorf("HPCC: at most %d bytes wait, later %d, at %.1f Gbit/s; DCQCN: %d", h.QueuePeak, most, gigabits(h.Goodput), d.QueuePeak)
	}
	for _, x := range []*Result{h, d} {
		if x.Failed != 0 || len(x.Drops) != 0 {
			t.Errorf("%d connections failed, drops %v", x.Failed, x.Drops)
		}
	}
}

// TestSwiftKeepsItsTarget has short messages wait for little more than Swift's target in front of a full link.
func TestSwiftKeepsItsTarget(t *testing.T) {
	s := shortened(t, "swift-target", "duration: 20ms", "duration: 2500us", "warm: 10ms", "warm: 2ms", "start: 10ms", "start: 2ms")
	for name, most := range map[string]float64{"Swift": 8.5, "Swift, longer path": 3} { // times the least, of which the target is no part
		x := published(t, s, name)[name]
		for i := range x.Messages {
			if m := &x.Messages[i]; (m.End-m.Start).Duration() > 50*time.Microsecond || m.Slowdown() > most {
				t.Errorf("%s: a message of 1 kB took %v, %.1f times the least", name, (m.End - m.Start).Duration(), m.Slowdown())
			}
		}
		if len(x.Messages) < 20 || gigabits(x.Goodput) < 85 {
			t.Errorf("%s: %d messages beside %.1f Gbit/s", name, len(x.Messages), gigabits(x.Goodput))
		}
	}
}
