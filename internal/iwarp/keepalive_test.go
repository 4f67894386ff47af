package iwarp

import (
	"testing"
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/machine/machinetest"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/iwarp"
)

// setPeerTimeout sets a PeerTimeout of four seconds for the first end.
func setPeerTimeout(i int, p *machinetest.Port) {
	if i == 0 {
		p.PeerTimeout = 4 * time.Second
	}
}

// newPairWithPeerTimeout makes a connected pair whose first end has a PeerTimeout.
func newPairWithPeerTimeout(tb testing.TB, a, b *Params) *pair {
	p := newPair(tb, setPeerTimeout)
	p.connect(a, b)
	return p
}

// idle advances the time. A stopped peer neither reads nor writes.
func (p *pair) idle(d time.Duration, stopped bool) {
	for end := p.now + d; ; {
		if stopped {
			for p.write(0) {
			}
			p.n[0].shut = max(p.n[0].shut, p.n[0].s.Shut())
		} else {
			p.run()
		}
		at := p.n[0].s.Deadline()
		if !stopped {
			at = min(at, p.n[1].s.Deadline())
		}
		if at > end {
			p.now = end
			return
		}
		p.now = max(p.now, at)
		for i, n := range p.n {
			if (i == 0 || !stopped) && n.s.Deadline() <= p.now {
				n.s.Expire(p.now)
			}
		}
	}
}

// count returns how often an end has reported a reason.
func (n *node) count(r reason.Reason) (c int) {
	for _, d := range n.Refused {
		if d.Reason == r {
			c++
		}
	}
	return c
}

// Neither end's program notices the probes, although the peer grants no rights, and the connection
// continues.
func TestSilentLivePeerIsOnlyProbed(t *testing.T) {
	for name, params := range map[string]*Params{
		"usual": defaults(), "one READ": {IRD: 1, ORD: 1}, "client and server": {ClientServer: true, IRD: 4, ORD: 4},
		"no extensions": {Extensions: ExtensionsOff, IRD: 4, ORD: 4}, "markers": {Markers: true, IRD: 4, ORD: 4},
	} {
		p := newPair(t, func(i int, p *machinetest.Port) {
			setPeerTimeout(i, p)
			if i == 1 {
				p.Attr.Access = 0
			}
		})
		p.connect(params, params)
		a, b := p.n[0], p.n[1]
		b.PostRecv(1, b.sge(0, 8))
		p.idle(time.Minute, false)
		if a.count(reason.PeerProbe) < 30 || a.count(reason.PeerProbe) != len(a.Refused) || len(b.Refused) != 0 {
			t.Errorf("%s: probes %d, refused %v and %v", name, a.count(reason.PeerProbe), a.Refused[max(0, len(a.Refused)-3):], b.Refused)
		}
		if a.Attr.State != qp.RTS || b.Attr.State != qp.RTS || len(a.Sent.List)+len(b.Received.List)+len(a.Events)+len(b.Events) != 0 {
			t.Errorf("%s: the probes were noticed: %v, %v", name, a.Events, b.Events)
		}
		a.post(queue.Send, 0, 8, queue.RDMA{})
		p.run()
		if len(a.Sent.List) != 1 || a.Sent.List[0].Status != queue.Success || len(b.Received.List) != 1 {
			t.Errorf("%s: the connection does not go on: %s, %s", name, brief(a.Sent.List), brief(b.Received.List))
		}
		if p.n[1].s.Deadline() != machine.Never {
			t.Errorf("%s: the end that asks nothing waits until %v", name, p.n[1].s.Deadline())
		}
	}
}

// An end that only receives detects a stopped peer. The connection manager and the flushed receive
// get the reason.
func TestStoppedPeerIsDetected(t *testing.T) {
	p := newPairWithPeerTimeout(t, defaults(), defaults())
	a := p.n[0]
	a.PostRecv(7, a.sge(0, 8))
	p.idle(10*time.Second, false)
	p.idle(3*time.Second, true)
	if a.Attr.State != qp.RTS {
		t.Fatal("the connection failed before the peer timeout")
	}
	p.idle(2*time.Second, true)
	if a.Attr.State != qp.Err || a.count(reason.PeerSilent) == 0 || a.last().Kind != Closed || a.last().Detail.Reason != reason.PeerSilent {
		t.Fatalf("%v, heard %+v, refused %v", a.Attr.State, a.last(), a.Refused)
	}
	l := a.Received.List
	if len(l) != 1 || l[0].Status != queue.WRFlushErr || reason.Reason(l[0].Expected) != reason.PeerSilent {
		t.Errorf("completions %+v", l)
	}
	if a.s.Shut() != ShutAbort || a.s.Deadline() != machine.Never {
		t.Errorf("shut %d, waits until %v", a.s.Shut(), a.s.Deadline())
	}
}

// An unanswered READ serves as a probe.
func TestStoppedPeerFailsTheOldestRequest(t *testing.T) {
	p := newPairWithPeerTimeout(t, defaults(), defaults())
	a, b := p.n[0], p.n[1]
	a.post(queue.Read, 0, 8, b.target(0))
	p.idle(10*time.Second, true)
	l := a.Sent.List
	if len(l) != 1 || l[0].Status != queue.RetryExcErr || l[0].Reason != reason.PeerSilent || l[0].Expected != 4000 {
		t.Errorf("completions %+v", l)
	}
	if a.count(reason.PeerProbe) != 0 {
		t.Errorf("asked %d times beside the READ", a.count(reason.PeerProbe))
	}
}

// A process that was stopped probes the peer before it ends the connection, whenever the pause
// happened.
func TestOwnPauseIsNotPeerSilence(t *testing.T) {
	for _, before := range []time.Duration{0, 1500 * time.Millisecond, 3500 * time.Millisecond} {
		p := newPairWithPeerTimeout(t, defaults(), defaults())
		a := p.n[0]
		p.idle(before, true) // the peer answers late
		p.now += time.Hour
		a.s.Expire(p.now) // timers fire before the waiting bytes are read
		p.idle(time.Minute, false)
		if a.Attr.State != qp.RTS || a.count(reason.PeerSilent) != 0 {
			t.Errorf("paused after %v: %v, refused %v", before, a.Attr.State, a.Refused)
		}
	}
}

// While a message waits for a receive, this end reads nothing.
func TestOwnStallIsNotPeerSilence(t *testing.T) {
	p := newPair(t, func(i int, p *machinetest.Port) {
		if i == 0 {
			p.PeerTimeout = 100 * time.Millisecond
		}
	})
	p.connect(defaults(), defaults())
	a, b := p.n[0], p.n[1]
	looks := 0
	p.late = func(int) {
		if looks++; looks == 200 {
			a.PostRecv(1, a.sge(0, 8))
		}
	}
	b.post(queue.Send, 0, 8, queue.RDMA{})
	p.run()
	if len(a.Received.List) != 1 || a.Received.List[0].Status != queue.Success || a.Attr.State != qp.RTS || p.now < 500*time.Millisecond {
		t.Errorf("after %v: %s, refused %v", p.now, brief(a.Received.List), a.Refused)
	}
}

// A peer that has not told its depth is not probed either, and the connection has no deadline.
func TestPeerThatServesNoReadsIsNotProbed(t *testing.T) {
	noRequest := &Params{IRD: 0, ORD: 0}
	for name, c := range map[string][2]*Params{
		"ORD 0": {{IRD: 4, ORD: 0}, defaults()}, "IRD 0": {defaults(), noRequest}, "both": {noRequest, noRequest},
		"revision 1": {{Revision: iwarp.Revision1, IRD: 4, ORD: 4}, defaults()},
	} {
		p := newPairWithPeerTimeout(t, c[0], c[1])
		p.idle(10*time.Second, false)
		for i, n := range p.n {
			if n.s.Deadline() != machine.Never || len(n.Refused) != 0 {
				t.Errorf("%s: end %d waits until %v, refused %v", name, i, n.s.Deadline(), n.Refused)
			}
		}
		p.idle(time.Minute, true)
		if a := p.n[0]; a.Attr.State != qp.RTS {
			t.Errorf("%s: %v", name, a.Attr.State)
		}
	}
}

// Without a PeerTimeout an idle connection has no timer.
func TestNoPeerTimeoutNeverWakes(t *testing.T) {
	p := newPair(t, nil)
	p.connect(defaults(), defaults())
	for i, n := range p.n {
		if n.s.Deadline() != machine.Never {
			t.Errorf("end %d waits until %v", i, n.s.Deadline())
		}
	}
}

// If only one READ is allowed, the program's READ waits for the probe's answer and is then sent.
func TestProbeDelaysREADsByNoMoreThanItsAnswer(t *testing.T) {
	p := newPairWithPeerTimeout(t, &Params{IRD: 1, ORD: 1}, &Params{IRD: 1, ORD: 1})
	a, b := p.n[0], p.n[1]
	p.idle(1500*time.Millisecond, true)
	if a.count(reason.PeerProbe) != 1 {
		t.Fatalf("asked %d times", a.count(reason.PeerProbe))
	}
	b.mem[0] = 0x5a
	a.post(queue.Read, 8, 8, b.target(0))
	a.post(queue.Read, 16, 8, b.target(0))
	for p.write(0) {
	}
	p.run()
	if a.mem[8] != 0x5a || a.mem[16] != 0x5a || a.Attr.State != qp.RTS || len(b.Refused) != 0 {
		t.Errorf("the READs returned %#x and %#x, refused %v and %v", a.mem[8], a.mem[16], a.Refused, b.Refused)
	}
}

// The peer's program has closed the connection in order, and only the probe was outstanding.
func TestOrderlyEndWithUnansweredProbeIsNotAnError(t *testing.T) {
	p := newPairWithPeerTimeout(t, defaults(), defaults())
	a, b := p.n[0], p.n[1]
	p.idle(1500*time.Millisecond, true)
	if err := b.s.Disconnect(p.now); err != nil {
		t.Fatal(err)
	}
	p.run()
	if e := a.last(); a.count(reason.PeerProbe) != 1 || e.Kind != Closed || e.Detail.Reason != reason.StreamClosed {
		t.Errorf("heard %+v, refused %v", e, a.Refused)
	}
}

// Data that the socket had no room for is still being sent, and the answer to the probe can only
// follow it.
func TestSlowReceivingPeerIsNotSilent(t *testing.T) {
	p := newPairWithPeerTimeout(t, defaults(), defaults())
	a, b := p.n[0], p.n[1]
	a.post(queue.Write, 0, memLen, b.target(0))
	room := func(n int) {
		a.limit = a.sent + n
		for a.sent < a.limit && p.write(0) {
		}
	}
	for range 60 {
		room(100)
		for end := p.now + time.Second; a.s.Deadline() <= end; {
			p.now = max(p.now, a.s.Deadline())
			a.s.Expire(p.now)
		}
		p.now += time.Second
	}
	if a.Attr.State != qp.RTS {
		t.Fatalf("the connection failed: %v", a.Refused)
	}
	a.limit = a.sent // from here on the peer accepts nothing
	for end := p.now + 6*time.Second; a.s.Deadline() <= end; {
		p.now = max(p.now, a.s.Deadline())
		a.s.Expire(p.now)
	}
	if l := a.Sent.List; a.Attr.State != qp.Err || len(l) != 1 || l[0].Reason != reason.PeerSilent {
		t.Errorf("%v, completions %+v", a.Attr.State, l)
	}
}

// The peer serves only the agreed number of READs. The READ that begins a connection may still be
// unanswered when a probe is due.
func TestProbeWaitsForOtherREADs(t *testing.T) {
	p := newPairWithPeerTimeout(t, &Params{IRD: 1, ORD: 1}, &Params{IRD: 1, ORD: 1})
	a, b := p.n[0], p.n[1]
	a.q.req.ready, a.q.alive.wanted = iwarp.RTRRead, true
	for p.write(0) {
	}
	if a.q.req.reads != 1 || a.count(reason.PeerProbe) != 0 {
		t.Errorf("%d READs are under way, %d probes", a.q.req.reads, a.count(reason.PeerProbe))
	}
	p.run()
	if a.Attr.State != qp.RTS || len(b.Refused) != 0 {
		t.Errorf("%v, refused %v", a.Attr.State, b.Refused)
	}
}

// This holds also if the probe interval is longer than PeerTimeout.
func TestSilentPeerIsProbedBeforeTheConnectionEnds(t *testing.T) {
	p := newPair(t, func(i int, p *machinetest.Port) {
		if i == 0 {
			p.PeerTimeout, p.PeerProbe = time.Second, 2*time.Second
		}
	})
	p.connect(defaults(), defaults())
	a := p.n[0]
	p.idle(7*time.Second, true)
	if a.Attr.State != qp.RTS || a.count(reason.PeerProbe) != 1 {
		t.Errorf("%v, %d probes", a.Attr.State, a.count(reason.PeerProbe))
	}
	p.idle(2*time.Second, true)
	if a.Attr.State != qp.Err {
		t.Errorf("%v after %d probes", a.Attr.State, a.count(reason.PeerProbe))
	}
}
