package rc

import (
	"net/netip"
	"testing"
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/psn"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/rc/conn"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// setPeerTimeout sets a PeerTimeout of four seconds for the first end.
func setPeerTimeout(i int, p *machine.Port) {
	if i == 0 {
		p.PeerTimeout = 4 * time.Second
	}
}

// idle advances the time and handles the packets and timers of that period.
func (w *pair) idle(d time.Duration) {
	for end := w.now + d; ; {
		w.quiet()
		at := min(w.n[0].q.Deadline(), w.n[1].q.Deadline())
		if at > end {
			w.now = end
			return
		}
		w.now = max(w.now, at)
		for _, n := range w.n {
			if n.q.Deadline() <= w.now {
				n.q.Expire(w.now)
			}
		}
	}
}

// Neither end's program notices the probes. This holds for standard peers and for those with
// selective acknowledges, and also if the peer has never received a request.
func TestSilentLivePeerIsOnlyProbed(t *testing.T) {
	for name, c := range map[string][2]Config{
		"standard": {}, "selective": {{Store: NewStore(DefaultStore)}, {Store: NewStore(DefaultStore)}},
	} {
		for _, used := range []bool{false, true} {
			w := newPairWith(t, c, func(i int, p *machine.Port) {
				setPeerTimeout(i, p)
				if i == 1 {
					p.Attr.Access = 0 // asks for no right
				}
			})
			a, b := w.n[0], w.n[1]
			if used {
				b.postRecv(1, b.sge(0, 8))
				a.post(wqe{op: queue.Send, list: []memory.SGE{a.sge(0, 8)}})
				w.quiet()
			}
			sends, receives := len(a.send.list), len(b.recv.list)
			w.idle(time.Minute)
			if a.count(reason.PeerProbe) < 30 || a.count(reason.PeerSilent) != 0 || a.count(reason.ResponseStale) != 0 {
				t.Errorf("%s, used %v: probes %d, refused %v", name, used, a.count(reason.PeerProbe), a.refused[max(0, len(a.refused)-3):])
			}
			if a.port.Attr.State != qp.RTS || b.port.Attr.State != qp.RTS || len(a.send.list) != sends || len(b.recv.list) != receives || len(a.events)+len(b.events) != 0 {
				t.Errorf("%s, used %v: the probes were noticed: %v, %v", name, used, a.events, b.events)
			}
			b.postRecv(2, b.sge(0, 8))
			a.post(wqe{op: queue.Send, list: []memory.SGE{a.sge(0, 8)}})
			w.quiet()
			if len(a.send.list) != sends+1 || a.send.list[sends].Status != queue.Success {
				t.Errorf("%s, used %v: the connection does not go on", name, used)
			}
		}
	}
}

// Linux's rxe acknowledges a duplicate with the PSN of the last SEND or WRITE that it has executed.
// Before the first one it uses PSN 0xffffff, or the PSN that an earlier connection of the queue
// pair left.
func TestPeerWithoutRequestsMayAnswerProbeWithAnyPSN(t *testing.T) {
	for _, answer := range []psn.PSN{0xffffff, testPSN0 - 1000, psn.New(testPSN0 + 1000)} {
		w := newPair(t, setPeerTimeout)
		a := w.n[0]
		w.fate = dropAll
		for range 100 {
			asked := a.count(reason.PeerProbe)
			w.idle(300 * time.Millisecond)
			if a.count(reason.PeerProbe) == asked {
				continue
			}
			w.forge(0, truePort, ib.Packet{BTH: ib.BTH{Opcode: ib.RCAcknowledge, PSN: answer}, AETH: ib.AETH{Syndrome: ib.ACKNoCredits}})
		}
		if a.port.Attr.State != qp.RTS || a.count(reason.PeerProbe) < 10 || a.count(reason.ResponseGhost)+a.count(reason.ResponseStale) != 0 {
			t.Errorf("answer %v: state %v, refused %v", answer, a.port.Attr.State, a.refused)
		}
	}
}

// Neither end sends anything but probes and their answers, the last of which concerned a READ.
func TestIdlePeerMayChangeItsPort(t *testing.T) {
	for _, selective := range []bool{false, true} {
		for moves := range 2 {
			c := [2]Config{}
			if selective {
				c = [2]Config{{Store: NewStore(DefaultStore)}, {Store: NewStore(DefaultStore)}}
			}
			w := newPairWith(t, c, setPeerTimeout)
			a, b := w.n[0], w.n[1]
			a.post(wqe{op: queue.Read, list: []memory.SGE{a.sge(0, 4*testMTU)}, remote: b.target(0)})
			w.quiet()
			w.wantStatuses(&a.send, queue.Success)
			w.idle(10 * time.Second)
			w.n[moves].addr = netip.AddrPortFrom(w.n[moves].addr.Addr(), otherPort)
			w.idle(time.Minute)
			if a.port.Attr.State != qp.RTS {
				t.Errorf("selective %v, node %d moved: state %v, refused %v", selective, moves, a.port.Attr.State, b.refused[max(0, len(b.refused)-3):])
			}
		}
	}
}

// An end that only receives detects it too.
func TestSilentDeadPeerIsDetected(t *testing.T) {
	w := newPair(t, setPeerTimeout)
	a := w.n[0]
	a.postRecv(7, a.sge(0, 8))
	w.idle(10 * time.Second)
	w.fate = dropAll
	began := w.now
	w.idle(3 * time.Second)
	if a.port.Attr.State != qp.RTS {
		t.Fatal("the connection failed before the peer timeout")
	}
	w.idle(2 * time.Second)
	if a.port.Attr.State != qp.Err || a.count(reason.PeerSilent) != 1 || a.raised(machine.EventQPFatal) != 1 {
		t.Fatalf("after %v: %v, events %v, refused %v", w.now-began, a.port.Attr.State, a.events, a.refused)
	}
	w.wantStatuses(&a.recv, queue.WRFlushErr)
	if a.q.Deadline() != machine.Never {
		t.Errorf("the queue pair still waits until %v", a.q.Deadline())
	}
}

// A process that was stopped for longer than PeerTimeout probes the peer before it ends the
// connection.
func TestOwnPauseIsNotPeerSilence(t *testing.T) {
	w := newPair(t, setPeerTimeout)
	w.now += time.Hour
	w.idle(time.Minute)
	if a := w.n[0]; a.port.Attr.State != qp.RTS || a.count(reason.PeerSilent) != 0 {
		t.Errorf("%v, refused %v", a.port.Attr.State, a.refused)
	}
}

// A queue pair with timeout 0 never retries and would wait forever (IBTA 9.7.6.1.3).
func TestPeerTimeoutEndsRequestsWithoutTimeout(t *testing.T) {
	w := newPair(t, func(i int, p *machine.Port) { setPeerTimeout(i, p); p.Attr.Timeout = 0 })
	w.fate = dropAll
	w.postWrites(1)
	w.idle(5 * time.Second)
	w.wantStatuses(&w.n[0].send, queue.RetryExcErr)
	if c := w.n[0].send.list[0]; c.Reason != reason.PeerSilent || c.Expected != 4000 {
		t.Errorf("completion %+v", c)
	}
}

// Without a PeerTimeout an idle connection has no timer.
func TestNoPeerTimeoutNeverWakes(t *testing.T) {
	w := newPair(t, nil)
	w.postWrites(1)
	w.settle()
	for _, n := range w.n {
		if n.q.Deadline() != machine.Never {
			t.Errorf("waits until %v", n.q.Deadline())
		}
	}
}

var refusedByHost = reason.Detail{Reason: reason.SendRefused, Expected: 24, Found: 111}

// The ICMP message quotes the last packet sent, a request or an acknowledge, and the peer no longer
// answers.
func TestUnreachableEndsConnectionToMissingPeer(t *testing.T) {
	for name, quoted := range map[string]ib.BTH{
		"request":     {Opcode: ib.RCWriteOnly, PSN: testPSN0},
		"acknowledge": {Opcode: ib.RCAcknowledge, PSN: testPSN1},
	} {
		w := newPair(t, nil)
		a, b := w.n[0], w.n[1]
		b.post(wqe{op: queue.Write, list: []memory.SGE{b.sge(0, 8)}, remote: a.target(0)})
		w.quiet()
		w.fate = dropAll
		if name == "request" {
			w.postWrites(1)
			w.take(0, 1)
		} else {
			a.postRecv(7, a.sge(0, 8))
		}
		if !a.q.Unreachable(w.now, &quoted, refusedByHost) {
			t.Fatalf("%s: not believed", name)
		}
		w.idle(3 * time.Second)
		if a.port.Attr.State != qp.Err {
			t.Errorf("%s: still %v", name, a.port.Attr.State)
		}
		if n := a.count(reason.PeerProbe); name == "acknowledge" && n != unreachableProbes {
			t.Errorf("%s: asked %d times", name, n)
		}
	}
}

// A forged message only triggers a probe, which the peer answers. A message whose PSN is not in
// flight, or that reports a temporary condition, does not even trigger a probe.
func TestForgedUnreachableEndsNothing(t *testing.T) {
	w := newPair(t, nil)
	a := w.n[0]
	w.postWrites(1)
	w.quiet()
	soft := reason.Detail{Reason: reason.SendUnreachable, Found: 113}
	for name, c := range map[string]struct {
		quoted ib.BTH
		d      reason.Detail
		known  bool
		asks   bool
	}{
		"PSN after the last one sent": {ib.BTH{Opcode: ib.RCWriteOnly, PSN: testPSN0 + 1}, refusedByHost, false, false},
		"PSN long acknowledged":       {ib.BTH{Opcode: ib.RCWriteOnly, PSN: testPSN0 - 5}, refusedByHost, false, false},
		"acknowledge of the future":   {ib.BTH{Opcode: ib.RCAcknowledge, PSN: testPSN1}, refusedByHost, false, false},
		"acknowledge of long ago":     {ib.BTH{Opcode: ib.RCAcknowledge, PSN: testPSN1 - answerSpan - 1}, refusedByHost, false, false},
		"datagram":                    {ib.BTH{Opcode: ib.UDSendOnly, PSN: testPSN0}, refusedByHost, false, false},
		"host that cannot be reached": {ib.BTH{Opcode: ib.RCWriteOnly, PSN: testPSN0}, soft, true, false},
		"the last packet":             {ib.BTH{Opcode: ib.RCWriteOnly, PSN: testPSN0}, refusedByHost, true, true},
	} {
		before := a.count(reason.PeerProbe)
		if known := a.q.Unreachable(w.now, &c.quoted, c.d); known != c.known {
			t.Errorf("%s: known %v", name, known)
		}
		w.idle(3 * time.Second)
		if asked := a.count(reason.PeerProbe) > before; asked != c.asks || a.port.Attr.State != qp.RTS {
			t.Errorf("%s: asked %v, state %v", name, asked, a.port.Attr.State)
		}
	}
}

// A peer is asked once while its path may be too narrow. Its answer ends that, also where nothing else probes it: what
// comes twice later is no answer to a probe.
func TestAskedPeerIsNotProbedForGood(t *testing.T) {
	w := newSelective(t, nil)
	a := w.n[0]
	a.q.alive.ask(w.now)
	w.settle()
	if a.q.c.Peer != conn.Selective {
		t.Fatal("the peer has not answered")
	}
	if a.q.probed() {
		t.Error("the peer has answered, and still owes an answer")
	}
}
