package control

import (
	"slices"
	"testing"
	"time"

	"softrdma/internal/fabric/subnet"
	"softrdma/internal/management/routing"
	"softrdma/internal/topology"
	"softrdma/internal/wire/ib"
)

// around sends from each adapter of a ring to the one two switches on, both ways round.
func around(w *world, total uint32) (streams []*stream) {
	n := len(w.adapters)
	for i := range n {
		for _, to := range []int{(i + 2) % n, (i + n - 2) % n} {
			s := &stream{from: i, to: to, total: total}
			if _, t := w.manager.Fabric(); t.SL != nil {
				s.sl = t.SL(w.lid(i), w.lid(to))
			}
			streams = append(streams, s)
		}
	}
	return streams
}

func TestStalledReceiverFillsItsLaneAndLosesNothing(t *testing.T) {
	w := newWorld(t, "ring:3", 2, routing.MinHop)
	stalled := true
	w.hosts[1].refuses = func(h ib.LRH) bool { return stalled && h.SL == 0 }
	first, second := &stream{from: 0, to: 1, total: 300}, &stream{from: 0, to: 1, sl: 1, total: 300}
	w.saturate([]*stream{first, second}, 5*time.Millisecond)
	if n := w.arrived(second); n != 300 {
		t.Errorf("%d datagrams arrived on the other lane, expected 300", n)
	}
	if first.sent == first.total || w.arrived(first) != 0 {
		t.Errorf("stalled lane: %d datagrams sent, %d arrived: expected full buffers", first.sent, w.arrived(first))
	}
	d := w.do(VerbDeadlock).Deadlock
	if len(d.Deadlock) != 0 || len(d.Still) != 3 { // the adapter and two switches
		t.Errorf("standing lanes: %+v, in deadlock: %+v", d.Still, d.Deadlock)
	}
	for _, l := range d.Still {
		if l.Cause != CauseProgram || l.VL != 0 || l.Packets == 0 {
			t.Errorf("lane %+v: expected it to wait for the program", l)
		}
	}
	stalled = false
	w.Resume(w.now, topology.End{Node: w.adapters[1], Port: 1})
	if !w.saturate([]*stream{first}, 5*time.Millisecond) {
		t.Errorf("%d of 300 datagrams arrived after the receiver went on", w.arrived(first))
	}
	if d := w.do(VerbDeadlock).Deadlock; len(d.Still) != 0 {
		t.Errorf("lanes still stand: %+v", d.Still)
	}
	if len(w.drops) != 0 {
		t.Errorf("dropped: %v", w.drops)
	}
}

func TestRingWithOneLaneDeadlocksAndTheCycleIsNamed(t *testing.T) {
	w := newWorld(t, "ring:5", 1, routing.MinHop)
	before := w.do(VerbDeadlock).Deadlock
	if len(before.Cycle) != 5 || len(before.Still) != 0 || len(before.Deadlock) != 0 {
		t.Fatalf("before any traffic: %+v", before)
	}
	if w.saturate(around(w, 2000), 20*time.Millisecond) {
		t.Fatal("all datagrams arrived: expected a deadlock")
	}
	d := w.do(VerbDeadlock).Deadlock
	if len(d.Deadlock) != 5 {
		t.Fatalf("deadlock of %+v, expected five lanes; standing still: %+v", d.Deadlock, d.Still)
	}
	for i, c := range d.Deadlock {
		next := d.Deadlock[(i+1)%5]
		from := topology.End{Node: w.node(c.Node), Port: c.Port}
		if c.VL != 0 || w.Fabric().Port(from).Peer.Node != w.node(next.Node) {
			t.Errorf("%+v does not lead to %+v", c, next)
		}
		at := slices.IndexFunc(d.Still, func(l Lane) bool { return l.Channel == c })
		if at < 0 || d.Still[at].Cause != CauseDeadlock || d.Still[at].Packets == 0 {
			t.Errorf("%+v is not among the lanes that stand still: %+v", c, d.Still)
		}
	}
	if len(w.drops) != 0 {
		t.Errorf("dropped: %v", w.drops)
	}
	// A link that goes down discards what waits for it, and so ends the deadlock.
	w.do(VerbLinkDown, portName(d.Deadlock[0].Node, d.Deadlock[0].Port))
	w.run(10 * time.Millisecond)
	if d := w.do(VerbDeadlock).Deadlock; len(d.Deadlock) != 0 {
		t.Errorf("deadlock after a link went down: %+v", d.Deadlock)
	}
}

func (w *world) node(name string) int {
	i, err := w.Fabric().Find(name)
	if err != nil {
		w.t.Fatal(err)
	}
	return i
}

func TestRingWithTwoLanesDoesNotDeadlock(t *testing.T) {
	w := newWorld(t, "ring:5", 2, routing.Torus)
	if !w.saturate(around(w, 2000), 20*time.Millisecond) {
		t.Fatal("not all datagrams arrived")
	}
	if d := w.do(VerbDeadlock).Deadlock; len(d.Cycle)+len(d.Still)+len(d.Deadlock) != 0 || d.Assumed {
		t.Errorf("%+v", d)
	}
	// The same tables with one service level for all packets allow a cycle.
	sl := uint8(0)
	if r, err := Do(w.now, w.Subnet, w.manager, Request{Verb: VerbDeadlock, SL: &sl}); err != nil || len(r.Deadlock.Cycle) == 0 {
		t.Errorf("with service level 0: %+v, %v: expected a cycle", r.Deadlock, err)
	}
}

func TestLostCreditsAreNamedAndRefreshed(t *testing.T) {
	w := newWorld(t, "star:2", 1, routing.MinHop)
	at := topology.End{Node: w.adapters[0], Port: 1}
	w.SetFaults(w.now, at, subnet.Faults{CreditLoss: 1})
	s := &stream{from: 0, to: 1, total: 300}
	w.saturate([]*stream{s}, 5*time.Millisecond)
	d := w.do(VerbDeadlock).Deadlock
	if len(d.Still) != 1 || d.Still[0].Node != "node-0" || d.Still[0].Cause != CauseCredits {
		t.Fatalf("standing lanes: %+v", d.Still)
	}
	w.SetFaults(w.now, at, subnet.Faults{})
	if !w.saturate([]*stream{s}, 5*time.Millisecond) {
		t.Errorf("%d of 300 datagrams arrived after the fault", w.arrived(s))
	}
}
