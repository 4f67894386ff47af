package rc

import (
	"bytes"
	"testing"
	"time"

	"softrdma/internal/congestion"
	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/psn"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// newSelective connects two queue pairs with selective acknowledges.
func newSelective(t testing.TB, tune func(i int, p *machine.Port)) *pair {
	return newPairWith(t, [2]Config{{Store: NewStore(DefaultStore)}, {Store: NewStore(DefaultStore)}}, tune)
}

// holdsNothing fails if an end still holds packets.
func (w *pair) holdsNothing() {
	w.t.Helper()
	for i, n := range w.n {
		if n.q.req.recovery.loss.board != nil || n.q.resp.Holds() || n.q.store != nil && n.q.store.responder.Used() != 0 {
			w.t.Errorf("node %d still holds something", i)
		}
	}
}

func TestSelectiveOneLossCostsOnePacket(t *testing.T) {
	for lostOne := range 9 { // the next test covers the tenth, a tail loss
		w := newSelective(t, nil)
		a, b := w.n[0], w.n[1]
		fill(a.mem, 9)
		w.fate = drop(1, lostOne)
		a.post(wqe{op: queue.Write, list: []memory.SGE{a.sge(0, 10*testMTU)}, remote: b.target(1)})
		w.settle()
		w.wantStatuses(&a.send, queue.Success)
		if !bytes.Equal(a.mem[:10*testMTU], b.mem[1:10*testMTU+1]) {
			t.Error("wrong bytes")
		}
		if len(w.sent[1]) != 11 || w.sent[1][10].PSN != psn.PSN(testPSN0).Add(lostOne) {
			t.Errorf("packet %d lost: %d packets sent", lostOne, len(w.sent[1]))
		}
		if a.count(reason.AckTimeout)+a.count(reason.NAKSequence)+a.count(reason.TailProbe)+b.count(reason.SequenceAhead) != 0 {
			t.Errorf("packet %d lost: refused %v, %v", lostOne, a.refused, b.refused)
		}
		w.holdsNothing()
	}
}

func TestSelectiveTailLossIsProbed(t *testing.T) {
	for _, op := range []queue.Op{queue.Write, queue.Read, queue.FetchAdd} {
		w := newSelective(t, func(_ int, p *machine.Port) { p.Attr.Timeout = 16 })
		a, b := w.n[0], w.n[1]
		w.postWrites(1)
		w.settle()
		start := w.now
		w.fate = drop(1, w.count[1]) // the next request, which nothing follows
		a.post(wqe{op: op, list: []memory.SGE{a.sge(0, 8)}, remote: b.target(0), atomic: b.word(0)})
		w.settle()
		w.wantStatuses(&a.send, 0, 0)
		if a.count(reason.TailProbe) != 1 || a.count(reason.AckTimeout) != 0 || w.now-start > a.port.Attr.AckTimeout()/10 {
			t.Errorf("operation %d: after %v, refused %v", op, w.now-start, a.refused)
		}
	}
}

func TestSelectiveRequestsOnlyLostReadResponses(t *testing.T) {
	w := newSelective(t, nil)
	a, b := w.n[0], w.n[1]
	fill(b.mem, 7)
	w.fate = drop(0, 3, 4, 9)
	const n = 15*testMTU + 5
	a.post(wqe{op: queue.Read, list: []memory.SGE{a.sge(0, 100), a.sge(100, n-100)}, remote: b.target(10)})
	w.settle()
	w.wantStatuses(&a.send, 0)
	if !bytes.Equal(a.mem[:n], b.mem[10:10+n]) {
		t.Error("wrong bytes")
	}
	if len(w.sent[1]) != 3 || len(w.sent[0]) != 16+3 || a.count(reason.AckTimeout) != 0 {
		t.Fatalf("%d requests, %d responses, refused %v", len(w.sent[1]), len(w.sent[0]), a.refused)
	}
	for i, want := range []ib.RETH{
		{Addr: b.mr.Base + 10 + 3*testMTU, RKey: b.mr.Key, Length: 2 * testMTU}, {Addr: b.mr.Base + 10 + 9*testMTU, RKey: b.mr.Key, Length: testMTU},
	} {
		if got := w.sent[1][1+i].RETH; got != want {
			t.Errorf("asked again for %+v, expected %+v", got, want)
		}
	}
	w.holdsNothing()
}

// A READ with more responses than a peer holds requests ahead is sent when nothing is in flight.
func TestSelectiveReadLongerThanTheSpanIsSent(t *testing.T) {
	w := newSelective(t, nil)
	a, b := w.n[0], w.n[1]
	a.q.req.span = 8
	fill(b.mem, 7)
	const n = 10 * testMTU
	w.postWrites(1)
	w.settle() // both now know the other's extensions
	a.post(wqe{op: queue.Read, list: []memory.SGE{a.sge(0, n)}, remote: b.target(0)})
	w.settle()
	w.wantStatuses(&a.send, 0, 0)
	if !bytes.Equal(a.mem[:n], b.mem[:n]) {
		t.Error("wrong bytes")
	}
	w.holdsNothing()
}

// A peer may hold a SEND without having a receive for it.
func TestSelectiveHeldSendWithoutReceiveIsNotDone(t *testing.T) {
	w := newSelective(t, nil)
	a, b := w.n[0], w.n[1]
	b.postRecv(1, b.sge(0, 8))
	w.fate = drop(1, 0)
	for i := range 3 {
		a.post(wqe{op: queue.Send, list: []memory.SGE{a.sge(i, 8)}})
	}
	for range 300 {
		w.step()
		if d := a.q.Deadline(); d != machine.Never {
			w.now = max(w.now, d)
			a.q.Expire(w.now)
		}
	}
	w.wantStatuses(&a.send, 0)
	w.wantStatuses(&b.recv, 0)
	b.postRecv(2, b.sge(8, 8))
	b.postRecv(3, b.sge(16, 8))
	w.settle()
	w.wantStatuses(&a.send, 0, 0, 0)
	w.wantStatuses(&b.recv, 0, 0, 0)
	if b.count(reason.SequenceHeld) == 0 {
		t.Errorf("nothing was held: %v", b.refused)
	}
	w.holdsNothing()
}

// Once the sender knows how late packets may arrive, reordering causes no retransmission.
func TestSelectiveLatePacketsAreNotRepeated(t *testing.T) {
	w := newSelective(t, nil)
	a, b := w.n[0], w.n[1]
	late := map[int]bool{}
	w.fate = func(to, i int, _ *ib.Packet) (int, int) {
		if to == 1 && i%7 == 3 {
			late[i] = true
			return 1, 2
		}
		return 1, 0
	}
	for range 20 {
		a.post(wqe{op: queue.Write, list: []memory.SGE{a.sge(0, 20*testMTU)}, remote: b.target(0)})
		w.take(0, 1<<20)
		w.deliver(1, 1<<20)
		w.now += time.Microsecond
		w.settle()
	}
	if len(late) < 20 || a.count(reason.PacketRepeated) != 0 || a.count(reason.RepeatNeedless) != 0 {
		t.Errorf("%d late, %d repeated: %v", len(late), a.count(reason.PacketRepeated), a.refused)
	}
	if len(w.sent[1]) != 400 {
		t.Errorf("%d packets sent, expected 400", len(w.sent[1]))
	}
}

// A standard peer sees one bit until it has answered once. After that a loss is repaired by
// resending everything from the lost packet on.
func TestSelectiveStandardPeerGetsStandardBehaviour(t *testing.T) {
	w := newPairWith(t, [2]Config{{Store: NewStore(DefaultStore)}, {}}, nil)
	a, b := w.n[0], w.n[1]
	w.postWrites(1)
	w.settle()
	if !w.sent[1][0].Selective {
		t.Error("not announced")
	}
	w.fate = drop(1, 6)
	a.post(wqe{op: queue.Write, list: []memory.SGE{a.sge(0, 10*testMTU)}, remote: b.target(1)})
	b.post(wqe{op: queue.Write, list: []memory.SGE{b.sge(0, 10*testMTU)}, remote: a.target(1)})
	w.settle()
	w.wantStatuses(&a.send, 0, 0)
	for to := range w.sent {
		for i, p := range w.sent[to] {
			if p.Opcode == ib.RCSelectiveAck || (i > 0 || to == 0) && (p.Selective || p.Keep || p.Copy) {
				t.Errorf("packet %d to node %d: %+v", i, to, p.BTH)
			}
		}
	}
	if len(w.sent[1]) != 1+15+1 || a.count(reason.NAKSequence) != 1 {
		t.Errorf("%d packets sent, refused %v", len(w.sent[1]), a.refused)
	}
}

// Packets that do not fit into the store are refused as the standard requires.
func TestSelectiveFullStoreFallsBackToTheStandard(t *testing.T) {
	w := newPairWith(t, [2]Config{{Store: NewStore(DefaultStore)}, {Store: NewStore(3 * testMTU)}}, nil)
	a, b := w.n[0], w.n[1]
	fill(a.mem, 5)
	w.fate = drop(1, 1)
	a.post(wqe{op: queue.Write, list: []memory.SGE{a.sge(0, 20*testMTU)}, remote: b.target(0)})
	w.settle()
	w.wantStatuses(&a.send, 0)
	if !bytes.Equal(a.mem[:20*testMTU], b.mem[:20*testMTU]) || a.count(reason.NAKSequence) == 0 || b.count(reason.SequenceHeld) == 0 {
		t.Errorf("refused %v, %v", a.refused, b.refused)
	}
	w.holdsNothing()
}

func TestSelectiveErrorReleasesWhatIsHeld(t *testing.T) {
	w := newSelective(t, nil)
	w.fate = drop(1, 0)
	w.postWrites(10)
	w.take(0, 100)
	w.deliver(1, 100)
	b := w.n[1]
	if b.q.store.responder.Used() == 0 {
		t.Fatal("nothing held")
	}
	b.q.c.Port.Attr.Access = 0 // the first request is refused when it arrives
	w.settle()
	w.wantStatuses(&b.recv)
	if b.q.store.responder.Used() != 0 || b.q.resp.Holds() {
		t.Errorf("%d bytes held in the error state", b.q.store.responder.Used())
	}
	w.n[0].to(0, 0)
	w.holdsNothing()
}

// Lists and copies come from the store and return to it.
func TestSelectiveLossySteadyPathDoesNotAllocate(t *testing.T) {
	for _, op := range []queue.Op{queue.Write, queue.Read} {
		w := newSelective(t, func(_ int, p *machine.Port) { p.SendCQ, p.RecvCQ, p.Host = &last{}, &last{}, &quiet{} })
		u := &pump{n: w.n}
		rounds := 0
		var out machine.Out
		var in machine.In
		now := time.Duration(0)
		room := make([]byte, 4096)
		work := func() {
			u.post(op, 9000, true)
			for i := 0; i < 400 && w.n[0].port.SQ.Len() > 0; i++ {
				now += 20 * time.Microsecond
				for k, n := range w.n {
					if n.q.Deadline() <= now {
						n.q.Expire(now)
					}
					for n.q.Next(now, &out) {
						if rounds++; rounds%17 == 5 {
							continue
						}
						in.Src, in.Packet = testAddrs[k], out.Packet
						in.Payload = room[:0]
						for _, p := range out.Pieces {
							in.Payload = append(in.Payload, p...)
						}
						w.n[1-k].q.Receive(now, &in)
					}
				}
			}
			if w.n[0].port.SQ.Len() > 0 {
				t.Fatal("work left undone")
			}
		}
		for range 50 {
			work()
		}
		if n := testing.AllocsPerRun(300, work); n != 0 {
			t.Errorf("operation %d: %v allocations", op, n)
		}
	}
}

// quiet is a host that ignores all reports.
type quiet struct{}

func (*quiet) Event(*machine.Port, machine.Event, reason.Detail)   {}
func (*quiet) Refuse(*machine.Port, reason.Detail)                 {}
func (*quiet) StateChanged(*machine.Port, qp.State, reason.Detail) {}

func TestMarkedPacketIsNotifiedOncePerInterval(t *testing.T) {
	w := newPair(t, nil)
	b := w.n[1]
	marked := func(i int) {
		p := requestPacket(ib.RCWriteOnly, i, 0)
		p.DestQPN = b.port.QPN
		in := machine.In{Packet: p, Src: testAddrs[0], TOS: 3}
		b.q.Receive(w.now, &in)
	}
	var out machine.Out
	notifications := func() (n int) {
		for b.q.Next(w.now, &out) {
			if out.Opcode == ib.CongestionNotify {
				n++
				// Annex A17.9.3.
				if !out.BECN || out.PSN != 0 || out.AckReq || out.Selective || out.Markable || out.Len != 16 || out.DestQPN != b.port.Attr.DestQPN {
					t.Errorf("%+v, %d bytes", out.BTH, out.Len)
				}
			}
		}
		return n
	}
	for i := range 5 {
		marked(i)
	}
	if n := notifications(); n != 1 {
		t.Fatalf("%d notifications for five marks", n)
	}
	w.now += congestion.NotifyInterval
	marked(5)
	if n := notifications(); n != 1 || b.count(reason.CongestionMarked) != 2 {
		t.Fatalf("%d notifications an interval later; refused %v", n, b.refused)
	}
}

func TestNotificationWithoutControlIsNamed(t *testing.T) {
	w := newPairWith(t, [2]Config{{Control: congestion.None}, {}}, nil)
	w.inject(0, ib.Packet{BTH: ib.BTH{Opcode: ib.CongestionNotify, BECN: true}, Payload: make([]byte, 16)})
	if a := w.n[0]; a.count(reason.CongestionIgnored) != 1 || a.count(reason.CongestionNotified) != 0 {
		t.Errorf("refused %v", a.refused)
	}
}

func TestNotificationSlowsTheSenderDown(t *testing.T) {
	for _, k := range []congestion.Kind{congestion.Window, congestion.DCQCN} {
		w := newPairWith(t, [2]Config{{Control: k}, {Control: k}}, nil)
		a, b := w.n[0], w.n[1]
		a.post(wqe{op: queue.Write, list: []memory.SGE{a.sge(0, 100*testMTU)}, remote: b.target(0)})
		w.take(0, 50)
		w.now += time.Millisecond / 5
		window := a.q.ctl.Window()
		w.inject(0, ib.Packet{BTH: ib.BTH{Opcode: ib.CongestionNotify, BECN: true}, Payload: make([]byte, 16)})
		if a.count(reason.CongestionNotified) != 1 || a.q.ctl.Window() >= window && a.q.ctl.Rate() == 0 {
			t.Errorf("%v: window %d, rate %v, refused %v", k, a.q.ctl.Window(), a.q.ctl.Rate(), a.refused)
		}
		if n := w.take(0, 1000); k == congestion.DCQCN && (n >= 50 || a.q.Deadline() == machine.Never) {
			t.Errorf("%d packets at once after a notification", n)
		}
		w.settle()
		w.wantStatuses(&a.send, 0)
	}
}
