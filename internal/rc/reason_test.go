package rc

import (
	"testing"
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/psn"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/ib/own"
)

// reasonsSent returns how many reasons were sent to node i.
func (w *pair) reasonsSent(i int) (n int) {
	for _, o := range w.opcodes(i) {
		if o == ib.RCReason {
			n++
		}
	}
	return n
}

// failed returns what the only failed completion of node 0 that was not flushed says.
func (w *pair) failed(want queue.Status) (own, peer reason.Detail) {
	w.t.Helper()
	for _, c := range w.n[0].send.list {
		if c.Status != queue.Success && c.Status != queue.WRFlushErr {
			if c.Status != want {
				w.t.Errorf("status %v, expected %v", c.Status, want)
			}
			return c.Reasons()
		}
	}
	w.t.Fatalf("completions %v, expected one with %v", statuses(&w.n[0].send), want)
	return own, peer
}

func TestRefusedRequestHasTheReasonOfBothEnds(t *testing.T) {
	for name, c := range map[string]struct {
		op        queue.Op
		access    qp.Access // of the peer's memory
		key       uint32    // added to the right one
		status    queue.Status
		own, peer reason.Reason
		found     uint64
	}{
		"WRITE without right":  {queue.Write, qp.RemoteRead, 0, queue.RemAccessErr, reason.NAKRemoteAccess, reason.KeyAccess, uint64(qp.RemoteRead)},
		"READ without right":   {queue.Read, qp.LocalWrite | qp.RemoteWrite, 0, queue.RemAccessErr, reason.NAKRemoteAccess, reason.KeyAccess, uint64(qp.LocalWrite | qp.RemoteWrite)},
		"unknown key":          {queue.Write, allAccess, 0x100, queue.RemAccessErr, reason.NAKRemoteAccess, reason.KeyUnknown, 0},
		"unaligned atomic":     {queue.FetchAdd, allAccess, 0, queue.RemInvReqErr, reason.NAKInvalidRequest, reason.AtomicAlignment, 0x50001},
		"SEND longer than its": {queue.Send, allAccess, 0, queue.RemInvReqErr, reason.NAKInvalidRequest, reason.ReceiveTooSmall, testMTU},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSelective(t, nil)
			a, b := w.n[0], w.n[1]
			mr, err := b.port.Memory.Register(7, asBytes(make([]uint64, 128)), 0x50000, c.access)
			if err != nil {
				t.Fatal(err)
			}
			b.postRecv(1, b.sge(0, 8))
			at := uint64(0x50000)
			if c.op == queue.FetchAdd {
				at++
			}
			key := mr.Key + c.key
			length := 600
			if c.op == queue.FetchAdd {
				length = 8
			}
			a.post(wqe{op: c.op, list: []memory.SGE{a.sge(0, length)}, remote: queue.RDMA{Addr: at, RKey: key}, atomic: queue.Atomic{Addr: at, RKey: key}})
			w.settle()
			own, peer := w.failed(c.status)
			if c.peer == reason.KeyUnknown {
				c.found = uint64(key)
			}
			if own.Reason != c.own || own.Found != testPSN0 || peer.Reason != c.peer || peer.Found != c.found {
				t.Errorf("this side %v: %v; peer %v: %v", own.Reason, own, peer.Reason, peer)
			}
			if n := w.reasonsSent(0); n != 1 || a.count(reason.PeerReason) != 1 {
				t.Errorf("%d reasons sent, %d received", n, a.count(reason.PeerReason))
			}
			if e := a.send.list[len(a.send.list)-1]; e.Reason != c.peer {
				t.Errorf("vendor_err is %v", e.Reason)
			}
		})
	}
}

// The NAK does not need the packet with the reason.
func TestRefusalWithoutItsReasonIsARefusal(t *testing.T) {
	w := newSelective(t, nil)
	w.fate = func(_, _ int, p *ib.Packet) (int, int) {
		if p.Opcode == ib.RCReason {
			return 0, 0
		}
		return 1, 0
	}
	a, b := w.n[0], w.n[1]
	a.post(wqe{op: queue.Write, list: []memory.SGE{a.sge(0, 8)}, remote: queue.RDMA{Addr: b.mr.Base, RKey: b.mr.Key + 1}})
	began := w.now
	w.settle()
	own, peer := w.failed(queue.RemAccessErr)
	if own.Reason != reason.NAKRemoteAccess || peer.Reason != reason.None || w.reasonsSent(0) != 1 {
		t.Errorf("this side %v, peer %v, %d reasons sent", own, peer, w.reasonsSent(0))
	}
	if d := w.now - began; d > 10*time.Microsecond {
		t.Errorf("refused after %v", d)
	}
}

// A standard peer gets nothing, and neither does one of a queue pair that keeps its reasons.
func TestReasonIsOnlyForPeersThatMayHaveIt(t *testing.T) {
	own, standard, keeps := Config{Store: NewStore(DefaultStore)}, Config{}, Config{Store: NewStore(DefaultStore), KeepReasons: true}
	for name, c := range map[string][2]Config{
		"standard requester": {standard, own}, "standard responder": {own, standard}, "kept": {own, keeps},
	} {
		w := newPairWith(t, c, nil)
		a, b := w.n[0], w.n[1]
		a.post(wqe{op: queue.Write, list: []memory.SGE{a.sge(0, 8)}, remote: queue.RDMA{Addr: b.mr.Base, RKey: b.mr.Key + 1}})
		w.settle()
		if _, peer := w.failed(queue.RemAccessErr); peer.Reason != reason.None || w.reasonsSent(0) != 0 {
			t.Errorf("%s: peer says %v, %d reasons sent", name, peer, w.reasonsSent(0))
		}
	}
}

// A request that waits for a receive is refused many times, for one reason.
func TestExhaustedRetriesHaveThePeersLastReason(t *testing.T) {
	for _, silent := range []bool{false, true} {
		w := newSelective(t, func(_ int, p *machine.Port) { p.Attr.RNRRetry, p.Attr.RetryCnt = 3, 2 })
		a, b := w.n[0], w.n[1]
		b.postRecv(1, b.sge(0, 8))
		for range 2 {
			a.post(wqe{op: queue.Send, list: []memory.SGE{a.sge(0, 8)}})
		}
		status, reported := queue.RNRRetryExcErr, reason.RNRRetryExceeded
		if silent { // after its first refusal
			status, reported = queue.RetryExcErr, reason.RetryExceeded
			w.fate = func(to, _ int, _ *ib.Packet) (int, int) {
				if to == 0 && a.count(reason.NAKNotReady) > 0 {
					return 0, 0
				}
				return 1, 0
			}
		}
		w.settle()
		own, peer := w.failed(status)
		if own.Reason != reported || peer != (reason.Detail{Reason: reason.NoReceive, Expected: 1, Found: 1}) {
			t.Errorf("this side %v; peer %v", own, peer)
		}
		if w.reasonsSent(0) != 1 || b.count(reason.NoReceive) < 3 {
			t.Errorf("%d reasons sent for %d refusals", w.reasonsSent(0), b.count(reason.NoReceive))
		}
	}
}

// What was said about a request that has succeeded says nothing about a later one.
func TestReasonEndsWithItsRequest(t *testing.T) {
	w := newSelective(t, func(_ int, p *machine.Port) { p.Attr.RetryCnt = 1 })
	a, b := w.n[0], w.n[1]
	b.postRecv(1, b.sge(0, 8))
	for range 2 {
		a.post(wqe{op: queue.Send, list: []memory.SGE{a.sge(0, 8)}})
	}
	for b.count(reason.NoReceive) == 0 {
		w.step()
	}
	b.postRecv(2, b.sge(0, 8))
	w.settle()
	w.wantStatuses(&a.send, 0, 0)
	w.fate = dropAll
	w.postWrites(1)
	w.settle()
	if own, peer := w.failed(queue.RetryExcErr); own.Reason != reason.RetryExceeded || peer.Reason != reason.None || w.reasonsSent(0) != 1 {
		t.Errorf("this side %v; peer %v", own, peer)
	}
}

// The numbers of a local key do not leave: the peer could use it.
func TestReasonKeepsLocalKeysIn(t *testing.T) {
	w := newSelective(t, nil)
	a, b := w.n[0], w.n[1]
	b.postRecv(1, memory.SGE{Addr: b.mr.Base, Length: 8, LKey: b.mr.Key + 1})
	a.post(wqe{op: queue.Send, list: []memory.SGE{a.sge(0, 8)}})
	w.settle()
	_, peer := w.failed(queue.RemOpErr)
	if peer.Reason == reason.None || peer.Expected != 0 || peer.Found != 0 {
		t.Errorf("peer says %v", peer)
	}
}

// A forged or spoiled reason changes no more than what a completion says, and that only for a
// request in flight.
func TestForgedReasonsChangeNothing(t *testing.T) {
	r := own.Reason{Number: 0xfffffffe, Expected: 1<<64 - 1, Found: 3}
	valid := r.Append(nil)
	for name, c := range map[string]struct {
		psn     int // behind the oldest request
		payload []byte
		counted reason.Reason
		peer    reason.Reason
	}{
		"of a later version":      {0, append(valid[:own.ReasonLen:own.ReasonLen], 1, 2, 3, 4), reason.PeerReason, 0xfffffffe},
		"too short":               {0, valid[:own.ReasonLen-4], reason.ResponseLength, 0},
		"too long":                {0, make([]byte, own.MaxReasonLen+4), reason.ResponseLength, 0},
		"of a request to come":    {1, valid, reason.ResponseGhost, 0},
		"of a completed request":  {-1, valid, reason.ResponseGhost, 0},
		"of no reason":            {0, make([]byte, own.ReasonLen), reason.PeerReason, 0},
		"without any payload":     {0, nil, reason.ResponseLength, 0},
		"of a request far before": {-4000, valid, reason.ResponseGhost, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSelective(t, func(_ int, p *machine.Port) { p.Attr.RetryCnt = 1 })
			a := w.n[0]
			w.postWrites(1)
			w.settle()
			w.fate = dropAll
			w.postWrites(1)
			w.step()
			p := ib.Packet{BTH: ib.BTH{Opcode: ib.RCReason, PSN: psn.PSN(testPSN0).Add(1 + c.psn), Selective: true}, Payload: c.payload}
			w.inject(0, p)
			if a.count(c.counted) != 1 || len(a.send.list) != 1 {
				t.Errorf("refused %v, completions %v", a.refused, statuses(&a.send))
			}
			w.settle()
			if own, peer := w.failed(queue.RetryExcErr); own.Reason != reason.RetryExceeded || peer.Reason != c.peer {
				t.Errorf("this side %v, peer says %v", own, peer)
			}
		})
	}
}

// A peer that has never answered is another failure than one that has gone away.
func TestPeerThatNeverAnsweredHasItsOwnReason(t *testing.T) {
	for _, answered := range []bool{false, true} {
		w := newPair(t, func(_ int, p *machine.Port) { p.Attr.RetryCnt = 1 })
		want := reason.NeverAnswered
		if answered {
			w.postWrites(1)
			w.settle()
			want = reason.RetryExceeded
		}
		w.fate = dropAll
		w.postWrites(1)
		w.settle()
		if own, _ := w.failed(queue.RetryExcErr); own.Reason != want {
			t.Errorf("answered before: %v: found %v", answered, own)
		}
	}
}

// The peer executes a request and refuses the next. If the NAK is lost, which would acknowledge the first as
// well, neither has the other's reason.
func TestReasonIsOfTheRequestThatItIsAbout(t *testing.T) {
	w := newSelective(t, nil)
	w.fate = func(_, _ int, p *ib.Packet) (int, int) {
		if p.Opcode == ib.RCAcknowledge {
			return 0, 0
		}
		return 1, 0
	}
	a, b := w.n[0], w.n[1]
	for i := range uint32(2) {
		a.post(wqe{op: queue.Write, list: []memory.SGE{a.sge(0, 8)}, remote: queue.RDMA{Addr: b.mr.Base, RKey: b.mr.Key + i}})
	}
	w.settle()
	own, peer := w.failed(queue.RetryExcErr)
	if w.reasonsSent(0) == 0 || a.count(reason.PeerReason) == 0 {
		t.Fatal("the peer has sent no reason")
	}
	if peer.Reason != reason.None {
		t.Errorf("this side %v, and the peer says %v of a request that it has executed", own, peer)
	}
}
