package congestion

import (
	"testing"
	"time"
)

func TestWindowGrowsToLimitAndHalvesOnTimeout(t *testing.T) {
	const packet, limit = 1024, 1 << 20
	var w window
	w.start(Limits{Window: limit, Packet: packet})
	if w.size != initialWindow {
		t.Fatalf("starts with %d, expected %d", w.size, initialWindow)
	}
	rtt := calm()
	for i := range 3 { // all of a window acknowledged doubles it
		before := w.size
		w.Acked(0, w.size, 0, rtt)
		if w.size != min(2*before, limit) {
			t.Fatalf("round %d: %d after %d", i, w.size, before)
		}
	}
	w.Timeout(0)
	if w.size != limit/2 {
		t.Fatalf("after a timeout %d, expected %d", w.size, limit/2)
	}
	for range w.size / packet { // from here on it grows by one packet per window
		w.Acked(0, packet, 0, rtt)
	}
	if got := w.size - limit/2; got < packet-packet/8 || got > packet {
		t.Fatalf("grew by %d in one window, expected about %d", got, packet)
	}
	for range 40 {
		w.Timeout(0)
	}
	if w.size != leastPackets*packet {
		t.Fatalf("least window %d, expected %d packets", w.size, leastPackets)
	}
}

func TestWindowForgivesAccidentsAndHalvesForOverflows(t *testing.T) {
	for _, c := range []struct {
		name  string
		rtt   *RTT
		share int // one packet in this many is lost
		want  bool
	}{
		{"1 % lost on a calm path", calm(), 100, false},
		{"5 % lost on a calm path", calm(), 20, false},
		{"1 % lost while packets wait", queued(), 100, true},
		{"a third lost on a calm path", calm(), 3, true},
	} {
		var w window
		w.start(testLimits)
		w.size, w.threshold = testLimit, testLimit
		now := time.Duration(0)
		for i := range 1000 {
			now += c.rtt.Smoothed() / 250 // that many packets are in flight
			if i%c.share == 0 {
				w.Lost(now, testPacket, c.rtt)
			} else {
				w.Acked(now, testPacket, 0, c.rtt)
			}
		}
		if got := w.size < testLimit*3/4; got != c.want {
			t.Errorf("%s: window %d", c.name, w.size)
		}
	}
}

// TestWindowKeepsTheMoreTheShorterTheQueue: round trips of a little over twice the minimum may
// come from slow ends as well as from a queue.
func TestWindowKeepsTheMoreTheShorterTheQueue(t *testing.T) {
	for _, c := range []struct {
		trip time.Duration // of a path of 1 ms
		keep float64
	}{{2200 * time.Microsecond, .77}, {3 * time.Millisecond, .65}, {4 * time.Millisecond, .5}, {20 * time.Millisecond, .5}} {
		r := &RTT{}
		r.Sample(0, time.Millisecond)
		last(r, 0, c.trip)
		var w window
		w.start(testLimits)
		w.size = testLimit
		w.Lost(time.Second, testPacket, r)
		if got := float64(w.size) / testLimit; got < c.keep-.001 || got > c.keep+.001 {
			t.Errorf("round trips of %v: %.3f of the window stays, expected %v", c.trip, got, c.keep)
		}
		w.Timeout(2 * time.Second)
		if got := float64(w.size) / testLimit; got < c.keep/2-.001 || got > c.keep/2+.001 {
			t.Errorf("after a timeout %.3f stays, expected half", got)
		}
	}
}

// TestWindowGrowsFasterOnACalmPath: a window that was halved on a long path reaches its
// capacity a few round trips after the calm period.
func TestWindowGrowsFasterOnACalmPath(t *testing.T) {
	const trip = 20 * time.Millisecond
	trips := func(r *RTT) (n int) {
		var w window
		w.start(testLimits)
		w.size = testLimit / 2
		w.threshold = w.size
		now := time.Second
		for ; w.size < testLimit*9/10 && n < 1000; n++ {
			for range 16 {
				now += trip / 16
				w.Acked(now, w.size/16, 0, r)
			}
		}
		return n
	}
	quiet, queued := &RTT{}, &RTT{}
	quiet.Sample(0, trip)
	queued.Sample(0, trip/2)
	last(queued, 0, trip)
	if n := trips(quiet); n < calmRounds || n > calmRounds+12 {
		t.Errorf("%d round trips without a queue to double a window", n)
	}
	if n := trips(queued); n < 90 {
		t.Errorf("%d round trips to double a window while packets wait, expected one packet in each", n)
	}
}

func TestWindowHalvesOncePerRoundTrip(t *testing.T) {
	var w window
	w.start(testLimits)
	w.size = testLimit
	rtt := queued()
	for range 50 { // one queue that overflowed, and its marks
		w.Lost(time.Second, testPacket, rtt)
		w.Notified(time.Second, rtt)
	}
	if w.size != testLimit/2 {
		t.Fatalf("window %d, expected half of %d", w.size, testLimit)
	}
	w.Lost(time.Second+2*rtt.Smoothed(), testPacket, rtt)
	if w.size != testLimit/4 {
		t.Fatalf("window %d a round trip later", w.size)
	}
}
