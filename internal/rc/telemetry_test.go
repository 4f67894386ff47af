package rc

import (
	"testing"
	"time"

	"softrdma/internal/congestion"
	"softrdma/internal/memory"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/ib/own"
)

// newInformed connects two ends over a link of 1 Gbit/s, whose switch tells what it has carried. Only
// the first one's control takes that.
func newInformed(t *testing.T, peer Config) *pair {
	w := newPairWith(t, [2]Config{{Store: NewStore(DefaultStore), Control: congestion.HPCC}, peer}, nil)
	var carried uint64
	w.tell = func(_ int, p *ib.Packet) []own.Hop {
		carried += uint64(len(p.Payload)) + overhead
		if !p.Telemetry {
			return nil
		}
		return []own.Hop{{Time: uint64(w.now), Bytes: carried, Queue: 100, Rate: 1000}, {Time: uint64(w.now), Bytes: carried, Rate: 80_000}}
	}
	return w
}

// Each request that asks for telemetry is answered with it, and the control follows it.
func TestTelemetryReachesTheControl(t *testing.T) {
	w := newInformed(t, Config{Store: NewStore(DefaultStore)})
	w.fastPath = true
	a, b := w.n[0], w.n[1]
	for range 4 {
		fill(a.mem, 7)
		a.post(wqe{op: queue.Write, list: []memory.SGE{a.sge(0, 20*testMTU)}, remote: b.target(1)})
		w.settle()
	}
	w.wantStatuses(&a.send, 0, 0, 0, 0)
	requests, told := 0, 0
	for _, p := range w.sent[1] {
		if p.Telemetry {
			requests++
		}
	}
	for _, p := range w.sent[0] {
		if p.Telemetry {
			t.Errorf("an answer asks for telemetry: %+v", p.BTH)
		}
		if p.Opcode != ib.RCTelemetry {
			continue
		}
		told++
		n, hops, ok := own.ParseTelemetry(p.Payload)
		if h := own.HopOf(hops, 0); !ok || n != 0 || len(hops) != 2*own.HopLen || h.Queue != 100 || h.Rate != 1000 || h.Bytes == 0 || h.Time == 0 {
			t.Errorf("telemetry %x", p.Payload)
		}
	}
	// The first message is sent before the peer has announced anything. From the third one on the window is a packet.
	if requests != 60 || told < 40 {
		t.Errorf("%d of %d requests ask for telemetry, which %d answers bring", requests, len(w.sent[1]), told)
	}
	// A link of 1 Gbit/s carries 250 bytes in a round trip of 2 µs, less than a packet.
	if got := a.q.ctl.Window(); got != testMTU+overhead {
		t.Errorf("the window is %d, expected a packet", got)
	}
	if len(a.refused) != 0 || len(b.refused) != 0 {
		t.Errorf("refused %v, %v", a.refused, b.refused)
	}
}

// Telemetry with losses: it acknowledges what was executed, and the ranges come in acknowledges of
// their own.
func TestTelemetryBesideLosses(t *testing.T) {
	w := newInformed(t, Config{Store: NewStore(DefaultStore)})
	a, b := w.n[0], w.n[1]
	fill(a.mem, 3)
	w.fate = func(to, i int, _ *ib.Packet) (int, int) {
		if i%5 == 3 {
			return 0, 0
		}
		return 1 + i%3/2, 0
	}
	for range 10 {
		a.post(wqe{op: queue.Write, list: []memory.SGE{a.sge(0, 20*testMTU)}, remote: b.target(1)})
		a.post(wqe{op: queue.Read, list: []memory.SGE{a.sge(20*testMTU, 3*testMTU)}, remote: b.target(1)})
	}
	w.settle()
	w.wantStatuses(&a.send, make([]queue.Status, 20)...)
	w.holdsNothing()
}

// A peer that implements the standard sees neither the bit nor the packet, and
// one that knows selective acknowledges and gets no telemetry sends none.
func TestTelemetryOnlyBetweenEndsThatKnowIt(t *testing.T) {
	w := newInformed(t, Config{})
	w.postWrites(1)
	w.settle()
	w.postWrites(3)
	w.settle()
	for to := range w.sent {
		for i, p := range w.sent[to] {
			if p.Opcode == ib.RCTelemetry || p.Telemetry {
				t.Errorf("packet %d to node %d: %+v", i, to, p.BTH)
			}
		}
	}
	w = newSelective(t, nil)
	w.tell = func(int, *ib.Packet) []own.Hop { return []own.Hop{{Time: 1, Bytes: 1, Rate: 1}} }
	w.postWrites(3)
	w.settle()
	for _, p := range append(w.sent[0], w.sent[1]...) {
		if p.Opcode == ib.RCTelemetry || p.Telemetry {
			t.Errorf("%+v", p.BTH)
		}
	}
}

// A control that takes telemetry and gets none says so once, also if it had some before.
func TestMissingTelemetryIsNamedOnce(t *testing.T) {
	w := newInformed(t, Config{Store: NewStore(DefaultStore)})
	tell := w.tell
	a, b := w.n[0], w.n[1]
	send := func(messages int, until bool) {
		t.Helper()
		for range messages {
			if a.q.uninformed == until {
				return
			}
			a.post(wqe{op: queue.Write, list: []memory.SGE{a.sge(0, 20*testMTU)}, remote: b.target(1)})
			w.settle()
		}
	}
	for i := range 2 {
		w.tell = nil
		send(1000, true)
		send(50, false) // remains so
		if n := a.count(reason.CongestionUninformed); n != i+1 {
			t.Errorf("said %d times, expected %d: %v", n, i+1, a.refused)
		}
		w.tell = tell
		if send(1000, false); a.q.uninformed {
			t.Fatal("telemetry changes nothing")
		}
	}
	for _, d := range a.refused {
		if d.Found <= d.Expected {
			t.Error(d)
		}
	}
}

// Telemetry of another length, or of requests that were not sent, is refused.
func TestTelemetryIsChecked(t *testing.T) {
	w := newInformed(t, Config{Store: NewStore(DefaultStore)})
	a := w.n[0]
	w.postWrites(3)
	w.settle()
	was := a.q.ctl.Window()
	h := own.Hop{Time: uint64(time.Second), Bytes: 1 << 60, Queue: 1 << 31, Rate: 1}
	p := ib.Packet{BTH: ib.BTH{Opcode: ib.RCTelemetry, Selective: true, PSN: a.q.req.before()}, AETH: ib.AETH{Syndrome: ib.ACKNoCredits}}
	for n := range own.HopLen {
		p.Payload = make([]byte, n)
		w.inject(0, p)
	}
	if got := a.count(reason.ResponseLength); got != own.HopLen {
		t.Errorf("%d refused by length, expected %d", got, own.HopLen)
	}
	p.Payload = h.Append(own.AppendDuplicates(nil, 0))
	p.PSN = p.PSN.Add(5)
	w.inject(0, p)
	if a.count(reason.ResponseGhost) != 1 || a.q.ctl.Window() != was {
		t.Errorf("window %d, expected %d; refused %v", a.q.ctl.Window(), was, a.refused)
	}
}
