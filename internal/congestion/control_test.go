package congestion

import (
	"os"
	"strings"
	"testing"
	"time"
)

const (
	testPacket = 4160
	testLimit  = 1 << 20
)

var testLimits = Limits{Window: testLimit, Packet: testPacket}

// calm returns an RTT without queues, queued one with queues.
func calm() *RTT {
	r := &RTT{}
	r.Sample(0, 100*time.Microsecond)
	return r
}

// last makes all recent round trips equally long.
func last(r *RTT, now, d time.Duration) {
	for range 4 * lowTrips {
		now += d
		r.Sample(now, d)
	}
}

func queued() *RTT {
	r := calm()
	last(r, 0, time.Millisecond)
	return r
}

func TestKindNamesParse(t *testing.T) {
	for k := Window; k < kinds; k++ {
		got, err := ParseKind(k.String())
		if err != nil || got != k {
			t.Errorf("%v parses as %v, %v", k, got, err)
		}
	}
	if k, err := ParseKind(""); k != Default || err != nil {
		t.Errorf("no name: %v, %v", k, err)
	}
	_, err := ParseKind("cubic")
	if err == nil || !strings.Contains(err.Error(), `expected window, dcqcn, delay, path, none, timely, swift, bounded or hpcc, found "cubic"`) {
		t.Errorf("an unknown control: %v", err)
	}
}

// Packets are ECN-capable only if marks are obeyed (CA17-5).
func TestKindECNWhereMarksAreObeyed(t *testing.T) {
	for k := range kinds {
		c := New(k, testLimits)
		for range 2000 {
			c.Acked(0, testPacket, 100*time.Microsecond, calm())
			c.Sent(0, testPacket, 0)
		}
		w := c.Window()
		c.Notified(time.Second, calm())
		timed := k == Delay || k == Timely || k == Swift || k == HPCC // these need no marks
		if obeys := c.Window() < w || c.Rate() > 0; !timed && obeys != k.ECN() {
			t.Errorf("%v: obeys %v, ECN %v", k, obeys, k.ECN())
		}
	}
}

func TestEveryControlStaysWithinItsLimits(t *testing.T) {
	for k := range kinds {
		c := New(k, testLimits)
		now := time.Duration(0)
		rtt := calm()
		for i := range 20000 {
			now += time.Duration(1+i%7) * 10 * time.Microsecond
			switch i % 101 {
			case 7, 8, 9:
				c.Notified(now, rtt)
			case 20:
				c.Timeout(now)
			case 30:
				for range 20 {
					c.Lost(now, testPacket, rtt)
				}
			default:
				d := time.Duration(50+i%500) * time.Microsecond
				rtt.Sample(now, d)
				c.Acked(now, testPacket, d, rtt)
				c.Sent(now, testPacket, 0)
			}
			if w := c.Window(); w < testPacket || w > testLimit {
				t.Fatalf("%v: window %d after %d steps", k, w, i)
			}
			if r := c.Rate(); r < 0 || r != 0 && (r < slowest || r > fastest) {
				t.Fatalf("%v: rate %v after %d steps", k, r, i)
			}
			if c.Rate() == 0 && c.Ready(now) > now {
				t.Fatalf("%v: waits without a rate", k)
			}
		}
	}
}

func TestRTTFollowsSamplesAndForgetsTheLeast(t *testing.T) {
	r := &RTT{}
	if r.Known() || r.Queued() {
		t.Fatal("known without a sample")
	}
	for i := range 100 {
		r.Sample(time.Duration(i)*time.Millisecond, 200*time.Microsecond)
	}
	if r.Smoothed() != 200*time.Microsecond || r.Least() != 200*time.Microsecond || r.Deviation() > time.Microsecond {
		t.Fatalf("%+v after equal samples", r)
	}
	r.Sample(100*time.Millisecond, 2*time.Millisecond)
	if r.Queued() || r.Calm() || r.Latest() != 2*time.Millisecond {
		t.Fatalf("%+v: one tenfold round trip counts as a queue", r)
	}
	last(r, 100*time.Millisecond, 2*time.Millisecond)
	if !r.Queued() || r.Low() != 2*time.Millisecond {
		t.Fatalf("%+v: tenfold round trips do not count as a queue", r)
	}
	if r.Sample(120*time.Millisecond, 200*time.Microsecond); r.Queued() {
		t.Fatalf("%+v: a queue that is gone", r)
	}
	if r.Sample(time.Second, 2*time.Millisecond); !r.Queued() {
		t.Fatalf("%+v: old round trips do not count as a queue", r)
	}
	for i := range 300 { // the path became permanently longer
		r.Sample(time.Duration(i)*100*time.Millisecond, 2*time.Millisecond)
	}
	if r.Least() != 2*time.Millisecond || r.Queued() {
		t.Fatalf("%+v: still believes in the shorter path", r)
	}
	r.Sample(time.Hour, time.Hour)
	if r.Latest() != longest {
		t.Fatalf("an hour is kept as %v", r.Latest())
	}
}

// The list of the documentation has each control.
func TestEachControlIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/congestion.md")
	if err != nil {
		t.Fatal(err)
	}
	names := Names()
	if len(names) != int(kinds-Window) {
		t.Errorf("names %v", names)
	}
	for _, name := range names {
		if !strings.Contains(string(text), "\n| `"+name+"`") || !strings.Contains(NameList(), name) {
			t.Errorf("docs/congestion.md has no row for %s, or %q lacks it", name, NameList())
		}
	}
}
