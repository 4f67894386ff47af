package congestion

import (
	"math"
	"testing"
	"time"
)

// steady makes an RTT with a smallest round trip.
func steady(least time.Duration) *RTT {
	r := &RTT{}
	r.Sample(0, least)
	return r
}

// TestTimelyFollowsThePublishedSteps drives algorithm 1 of the paper from 10 Gbit/s, on a path of 20
// µs with thresholds of 50 and 500 µs, and compares each rate with the formulas.
func TestTimelyFollowsThePublishedSteps(t *testing.T) {
	const start, path = 1.25e9, 20 * time.Microsecond
	for _, c := range []struct {
		name    string
		samples []time.Duration // microseconds
		want    float64         // of the start, or added to it
		add     float64
	}{
		{"below the lower threshold it grows by 10 Mbit/s, whatever the gradient", []time.Duration{30, 45}, 1, 2 * 1.25e6},
		{"above the upper one it falls to 1 - 0.8(1 - 500/1000)", []time.Duration{1000}, .6, 0},
		{"a falling round trip between them is one step", []time.Duration{99}, 1, 1.25e6},
		{"a growth by 2 µs is a gradient of 0.875 x 2/20", []time.Duration{102}, 1 - .8*.875*2/20, 0},
		{"a growth by 200 µs takes half", []time.Duration{300}, .5, 0},
		{"the fifth step in a row is five times as large", []time.Duration{99, 98, 97, 96, 95}, 1, (4 + 5) * 1.25e6},
	} {
		k := newTimely(testLimits)
		k.rate, k.fresh, k.before = start, false, 100*time.Microsecond
		rtt := steady(path)
		for i, s := range c.samples {
			k.Acked(time.Duration(i+1)*time.Millisecond, timelySegment, s*time.Microsecond, rtt)
		}
		if want := start*c.want + c.add; math.Abs(k.rate-want) > 1 {
			t.Errorf("%s: %.0f bytes per second, expected %.0f", c.name, k.rate, want)
		}
	}
	k := newTimely(testLimits)
	k.rate, k.fresh, k.before = start, false, 100*time.Microsecond
	rtt := steady(path)
	k.Acked(time.Millisecond, timelySegment-1, time.Millisecond, rtt)
	if k.rate != start {
		t.Error("the rate changes before a segment is acknowledged")
	}
	k.Acked(time.Millisecond, 1, time.Millisecond, rtt)
	after := k.rate
	k.Acked(time.Millisecond+path-1, timelySegment, time.Millisecond, rtt)
	if after == start || k.rate != after {
		t.Error("the rate changes twice in a round trip")
	}
}

func TestTimelyStartsByDoubling(t *testing.T) {
	k, rtt := newTimely(testLimits), steady(20*time.Microsecond)
	if k.Window() != initialDelay*testPacket || k.Rate() != 0 {
		t.Errorf("window %d, rate %.0f before a round trip is known", k.Window(), k.Rate())
	}
	now := time.Duration(0)
	for range 6 {
		now += 20 * time.Microsecond
		k.Acked(now, testPacket, 20*time.Microsecond, rtt)
	}
	if want := initialDelay * testPacket / 20e-6 * 32; math.Abs(k.rate-want) > 1 {
		t.Errorf("%.0f bytes per second, expected %.0f", k.rate, want)
	}
	was := k.rate
	k.Acked(now+20*time.Microsecond, timelySegment, 60*time.Microsecond, rtt)
	if k.fresh || k.rate > was {
		t.Errorf("the start continues at %.0f bytes per second behind a queue", k.rate)
	}
}

// TestSwiftTargetScalesWithFlows compares the target with the formula of the paper (3.5): the whole
// range at a window of 0.1 packets, none from 100 on, and in between by the square root.
func TestSwiftTargetScalesWithFlows(t *testing.T) {
	for _, c := range []struct{ packets, share float64 }{
		{.01, 1}, {.1, 1}, {1, (1 - .1) / (1/math.Sqrt(.1) - .1)}, {25, (.2 - .1) / (1/math.Sqrt(.1) - .1)}, {100, 0}, {1000, 0},
	} {
		want := swiftBase + time.Duration(c.share*float64(swiftRange))
		if got := swiftTarget(c.packets); got < want-1 || got > want+1 {
			t.Errorf("%v packets: %v, expected %v", c.packets, got, want)
		}
	}
}

// TestSwiftFollowsThePublishedSteps drives algorithm 1 of the paper.
func TestSwiftFollowsThePublishedSteps(t *testing.T) {
	const path = 20 * time.Microsecond
	target := path + swiftTarget(200)
	k, rtt := newSwift(testLimits), steady(path)
	k.size = 200
	for range 200 { // a round trip below the target: one packet
		k.Acked(time.Millisecond, testPacket, path, rtt)
	}
	if k.size < 200.99 || k.size > 201 {
		t.Errorf("%v packets after a round trip, expected 201", k.size)
	}
	for _, c := range []struct {
		sample time.Duration
		want   float64
	}{{2 * target, 1 - .8*.5}, {10 * target, .5}} {
		k, rtt := newSwift(testLimits), steady(path)
		k.size = 200
		k.Acked(time.Millisecond, testPacket, c.sample, rtt)
		if got := k.size / 200; math.Abs(got-c.want) > 1e-9 {
			t.Errorf("a round trip of %v leaves %v of the window, expected %v", c.sample, got, c.want)
		}
		k.Acked(time.Millisecond+1, testPacket, c.sample, rtt)
		if got := k.size / 200; math.Abs(got-c.want) > 1e-9 {
			t.Errorf("it shrinks twice in a round trip, to %v", got)
		}
	}
}

// Below one packet the window is a pause, and grows by a packet for each that is acknowledged. After
// five timeouts in a row it is the smallest.
func TestSwiftWaitsBelowOnePacket(t *testing.T) {
	const path = 20 * time.Microsecond
	k, rtt := newSwift(testLimits), steady(path)
	k.Acked(0, testPacket, path, rtt)
	k.size = .25
	if k.Window() != testPacket || k.Rate() != .25*testPacket/path.Seconds() {
		t.Errorf("window %d, rate %v", k.Window(), k.Rate())
	}
	now := time.Millisecond
	k.Sent(now, testPacket, testPacket)
	if at := k.Ready(now); at != now+4*path {
		t.Errorf("the next packet leaves after %v, expected %v", at-now, 4*path)
	}
	if k.Acked(now+4*path, testPacket, path, rtt); k.size != 1.25 || k.Ready(now) != now || k.Rate() != 0 {
		t.Errorf("%v packets after an acknowledge", k.size)
	}
	k.size = 100
	for i := range swiftTimeouts {
		if want := 100 * math.Pow(.5, float64(i)); k.size != want {
			t.Errorf("%v packets after %d timeouts, expected %v", k.size, i, want)
		}
		now += time.Second
		k.Timeout(now)
	}
	if k.size != swiftLeast {
		t.Errorf("%v packets after %d timeouts", k.size, swiftTimeouts)
	}
}

// A pipe is a path of one link with a queue, on which a control sends by its window, in steps of a
// round trip.
type pipe struct {
	rate float64 // bytes per second
	path time.Duration
	now  time.Duration
	rtt  RTT
	wait float64 // bytes
}

func (p *pipe) step(c Control, others float64) (sent float64) {
	sent = float64(c.Window())
	fits := p.rate * p.path.Seconds()
	p.wait = max(sent+others-fits, 0)
	trip := p.path + time.Duration(p.wait/p.rate*float64(time.Second))
	begin := p.now
	p.now += trip
	p.rtt.Sample(p.now, trip)
	for n := int(sent); n > 0; n -= testPacket {
		at := begin + time.Duration(float64(trip)*(1-float64(max(n-testPacket, 0))/sent))
		c.Acked(at, min(n, testPacket), trip, &p.rtt)
	}
	return sent / trip.Seconds()
}

// TestBoundedKeepsTheContentOfThePath checks IRN's bound, what fits into the path: for 40 Gbit/s and a
// round trip of 24 µs as in the paper it is 120 KB. Losses do not change it.
func TestBoundedKeepsTheContentOfThePath(t *testing.T) {
	p := pipe{rate: 5e9, path: 24 * time.Microsecond}
	k := newBounded(testLimits)
	rate := 0.0
	for range 40 {
		rate = p.step(k, 0)
	}
	if k.Window() < 120e3 || k.Window() > 135e3 || rate < .97*p.rate {
		t.Errorf("%d bytes in flight at %.0f bytes per second, expected 120000 and little more", k.Window(), rate)
	}
	was := k.Window()
	k.Lost(p.now, 10*testPacket, &p.rtt)
	k.Timeout(p.now)
	k.Notified(p.now, &p.rtt)
	if k.Window() != was {
		t.Errorf("%d bytes after losses, expected %d", k.Window(), was)
	}
}

// A flow that began beside others continues growing when they have ended.
func TestBoundedTakesWhatOthersLeave(t *testing.T) {
	p := pipe{rate: 5e9, path: 24 * time.Microsecond}
	k := newBounded(testLimits)
	for range 40 {
		p.step(k, 90e3)
	}
	beside := k.Window()
	for range 60 {
		p.step(k, 0)
	}
	if beside > 100e3 || k.Window() < 120e3 || k.Window() > 135e3 {
		t.Errorf("%d bytes beside others and %d without", beside, k.Window())
	}
}

// TestHPCCFollowsThePublishedSteps drives algorithm 1 of the paper with the telemetry of one link of
// 100 Gbit/s and a round trip of 12 µs: 150 KB fit into it.
func TestHPCCFollowsThePublishedSteps(t *testing.T) {
	const rate, path, fits = 12.5e9, 12 * time.Microsecond, 150e3
	rtt := steady(path)
	k := newHPCC(testLimits)
	hop := Hop{Rate: rate}
	k.Telemetry(0, []Hop{hop}, rtt)
	if k.size != fits || math.Abs(k.step-fits*.05/hpccFlows) > 1e-9 || math.Abs(k.Rate()-rate) > 1 {
		t.Fatalf("window %v, step %v, rate %v, expected %v, %v and the link's", k.size, k.step, k.Rate(), fits, fits*.05/hpccFlows)
	}
	// tell has the link carry a part of its rate for a round trip, with a queue.
	tell := func(part float64, queue int) {
		hop.At, hop.Sent, hop.Queue = hop.At+path, hop.Sent+uint64(part*fits), queue
		k.Telemetry(hop.At, []Hop{hop}, rtt)
	}
	within := func(name string, want float64) {
		t.Helper()
		if math.Abs(k.size-want) > 2 {
			t.Errorf("%s: window %.1f, expected %.1f", name, k.size, want)
		}
	}
	tell(1, 0) // U = 1
	within("a full link", fits*hpccUse/1+k.step)
	base := k.base
	tell(.9, 0) // U = .9: below eta
	within("a link with room", base+k.step)
	for range hpccStages - 1 {
		tell(.5, 0)
	}
	within("four more of these", base+hpccStages*k.step)
	base = k.base
	tell(.5, 0) // the sixth jumps
	within("maxStage", base*hpccUse/.5+k.step)
	base = k.base
	tell(1, 150e3) // half of the queue's measurement is the older one, without a queue
	within("a queue that has just begun", base*hpccUse/1+k.step)
	base = k.base
	tell(1, 150e3) // U = 2
	within("a queue of what fits into the path", base*hpccUse/2+k.step)
}

// During a round trip the window follows from the same base: reactions do not add up. Several
// switches count by the busiest link, and another path begins again.
func TestHPCCReactsToTheBusiestLinkOncePerRoundTrip(t *testing.T) {
	const rate, path, fits = 12.5e9, 12 * time.Microsecond, 150e3
	rtt := steady(path)
	k := newHPCC(testLimits)
	k.Telemetry(0, []Hop{{Rate: rate}, {Rate: rate}}, rtt)
	k.Sent(0, testPacket, fits)
	k.Acked(0, testPacket, path, rtt)
	k.next = k.position + fits
	for i := range 4 { // an eighth of a round trip each, the second link full with a queue
		at := time.Duration(i+1) * path / 8
		sent := uint64((i + 1)) * fits / 8
		k.Telemetry(at, []Hop{{At: at, Sent: sent / 2, Rate: rate}, {At: at, Sent: sent, Queue: 150e3, Rate: rate}}, rtt)
	}
	// U rises from 1 to 2 by an eighth each time, but for the first, whose older queue was empty.
	use := 1.0
	for range 3 {
		use = use*7/8 + 2./8
	}
	if want := fits*hpccUse/use + k.step; math.Abs(k.size-want) > 2 || k.base != fits {
		t.Errorf("window %.1f of base %.1f, expected %.1f of %.1f", k.size, k.base, want, fits)
	}
	k.Telemetry(path, []Hop{{Rate: rate / 10}}, rtt)
	if k.size != fits/10 || k.count != 1 {
		t.Errorf("window %.1f on another path, expected %.1f", k.size, fits/10)
	}
	was := k.size
	k.Telemetry(path, []Hop{{Rate: rate / 10}}, rtt) // an older packet
	k.Telemetry(path, nil, rtt)
	if k.size != was {
		t.Errorf("window %.1f after telemetry that says nothing new, expected %.1f", k.size, was)
	}
}

// After a failure packets take a path with as many switches, which have carried more or less in their time.
// That says nothing about its use.
func TestHPCCBeginsAgainOnAPathOfTheSameLength(t *testing.T) {
	const rate, path, fits = 12.5e9, 12 * time.Microsecond, 150e3
	rtt := steady(path)
	for name, sent := range map[string]uint64{"less": 1000, "more": 1e12} {
		k := newHPCC(testLimits)
		k.Telemetry(0, []Hop{{Sent: 1e9, Rate: rate}}, rtt)
		k.Telemetry(path, []Hop{{At: path, Sent: 1e9 + fits/2, Rate: rate}}, rtt)
		k.Telemetry(2*path, []Hop{{At: 2 * path, Sent: sent, Rate: rate}}, rtt)
		if k.size != fits {
			t.Errorf("a link that has carried %s: window %.1f, expected %v", name, k.size, fits)
		}
	}
}

// Without telemetry, as from other implementations and on other networks, it is a window, and it is
// itself again with the first telemetry.
func TestHPCCIsAWindowWithoutTelemetry(t *testing.T) {
	const rate, path, fits = 12.5e9, 12 * time.Microsecond, 150e3
	rtt := steady(path)
	k := newHPCC(testLimits)
	now := time.Duration(0)
	ack := func(packets int) {
		for range packets {
			now += time.Microsecond
			k.Acked(now, testPacket, path, rtt)
		}
	}
	first := k.Window()
	if ack(silentPackets); k.Window() != first {
		t.Errorf("window %d before it is clear that no telemetry comes, expected %d", k.Window(), first)
	}
	if ack(silentWindows*first/testPacket + first/testPacket); k.Window() <= first || k.Rate() != 0 {
		t.Errorf("window %d with rate %v, expected one that grows from %d without a rate", k.Window(), k.Rate(), first)
	}
	was := k.Window()
	for range 100 {
		k.Lost(now, testPacket, queued())
	}
	if k.Window() >= was {
		t.Errorf("window %d after many losses, was %d", k.Window(), was)
	}
	k.Telemetry(now, []Hop{{At: now, Rate: rate}}, rtt)
	if float64(k.Window()) != fits || k.Rate() == 0 {
		t.Errorf("window %d with telemetry, expected %v", k.Window(), fits)
	}
	for range 4 {
		ack(silentWindows*k.Window()/testPacket - 1)
		k.Telemetry(now, []Hop{{At: now, Rate: rate}}, rtt)
		if k.alone {
			t.Fatal("telemetry that is rare does not count")
		}
	}
	if ack(silentWindows*k.Window()/testPacket + 1); !k.alone || k.Rate() != 0 {
		t.Error("telemetry that has ended is still expected")
	}
}
