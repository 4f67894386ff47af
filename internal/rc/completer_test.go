package rc

import (
	"bytes"
	"testing"

	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/psn"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/rc/conn"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// drop loses the packets with the given numbers that are sent to a node.
func drop(to int, numbers ...int) func(int, int, *ib.Packet) (int, int) {
	return func(d, i int, _ *ib.Packet) (int, int) {
		for _, n := range numbers {
			if d == to && i == n {
				return 0, 0
			}
		}
		return 1, 0
	}
}

func dropAll(int, int, *ib.Packet) (int, int) { return 0, 0 }

func ackPacket(s ib.Syndrome, p psn.PSN) (k ib.Packet) {
	k.Opcode, k.PSN, k.AETH.Syndrome = ib.RCAcknowledge, p, s
	return k
}

func (w *pair) postWrites(n int) {
	for range n {
		w.n[0].post(wqe{op: queue.Write, list: []memory.SGE{w.n[0].sge(0, 8)}, remote: w.n[1].target(0)})
	}
}

func TestCompleterAckCoversEarlierRequests(t *testing.T) {
	w := newPair(t, nil)
	w.postWrites(5)
	w.take(0, 100)
	w.inject(0, ackPacket(ib.ACKNoCredits, psn.PSN(testPSN0).Add(2)))
	w.wantStatuses(&w.n[0].send, 0, 0, 0)
	if n := w.n[0].port.SQ.Len(); n != 2 {
		t.Errorf("%d requests in the ring, want 2", n)
	}
}

func TestCompleterPartialAckOpensWindow(t *testing.T) {
	w := newPair(t, func(_ int, p *machine.Port) { p.Window = 4 * (testMTU + overhead) })
	a, b := w.n[0], w.n[1]
	a.post(wqe{op: queue.Write, list: []memory.SGE{a.sge(0, 20*testMTU)}, remote: b.target(0)})
	w.take(0, 100)
	w.inject(0, ackPacket(ib.ACKNoCredits, psn.PSN(testPSN0).Add(2)))
	if n := w.take(0, 100); n != 3 {
		t.Errorf("%d packets after 3 were acknowledged", n)
	}
}

func TestCompleterStaleAndGhostAcksIgnored(t *testing.T) {
	w := newPair(t, nil)
	a := w.n[0]
	w.postWrites(2)
	w.settle()
	w.postWrites(1)
	w.take(0, 100)
	for _, s := range []ib.Syndrome{ib.ACKNoCredits, ib.NAKSequence, ib.NAKRemoteAccess, ib.RNRNAK} {
		w.inject(0, ackPacket(s, psn.PSN(testPSN0).Add(1)))
		w.inject(0, ackPacket(s, psn.PSN(testPSN0).Add(3)))
	}
	if a.count(reason.ResponseStale) != 4 || a.count(reason.ResponseGhost) != 4 || len(a.refused) != 8 {
		t.Errorf("refusals %v", a.refused)
	}
	w.wantStatuses(&a.send, 0, 0)
	w.settle()
	w.wantStatuses(&a.send, 0, 0, 0)
}

func TestCompleterFatalNAKsSetCompletionStatus(t *testing.T) {
	for _, r := range []struct {
		s      ib.Syndrome
		status queue.Status
		reason reason.Reason
	}{
		{ib.NAKInvalidRequest, queue.RemInvReqErr, reason.NAKInvalidRequest},
		{ib.NAKRemoteAccess, queue.RemAccessErr, reason.NAKRemoteAccess},
		{ib.NAKRemoteOperational, queue.RemOpErr, reason.NAKRemoteOperational},
		{ib.NAKInvalidRDRequest, queue.RemOpErr, reason.NAKReserved},
	} {
		w := newPair(t, func(_ int, p *machine.Port) { p.SQSigAll = false })
		a := w.n[0]
		w.postWrites(4) // unsignalled: only errors complete
		w.take(0, 100)
		w.inject(0, ackPacket(r.s, psn.PSN(testPSN0).Add(2)))
		w.wantStatuses(&a.send, r.status, queue.WRFlushErr)
		if c := a.send.list[0]; c.WRID != 2 || c.Reason != r.reason {
			t.Errorf("%v: %+v", r.s, c)
		}
		if a.port.Attr.State != qp.Err || len(a.states) != 1 || a.count(r.reason) != 1 {
			t.Errorf("%v: state %v, reported %v, refused %v", r.s, a.port.Attr.State, a.states, a.refused)
		}
		if a.q.Deadline() != machine.Never {
			t.Errorf("%v: a timer still runs", r.s)
		}
	}
}

func TestCompleterReservedSyndromeIgnored(t *testing.T) {
	w := newPair(t, nil)
	w.postWrites(1)
	w.take(0, 1)
	w.inject(0, ackPacket(0x40, testPSN0))
	if w.n[0].count(reason.NAKReserved) != 1 || len(w.n[0].send.list) != 0 {
		t.Errorf("refused %v, completed %v", w.n[0].refused, w.n[0].send.list)
	}
}

func TestCompleterSequenceNAKGoesBackToItsPSN(t *testing.T) {
	w := newPair(t, nil)
	a, b := w.n[0], w.n[1]
	fill(a.mem, 9)
	w.fate = drop(1, 5)
	a.post(wqe{op: queue.Write, list: []memory.SGE{a.sge(0, 10*testMTU)}, remote: b.target(1)})
	w.settle()
	w.wantStatuses(&a.send, queue.Success)
	if !bytes.Equal(a.mem[:10*testMTU], b.mem[1:10*testMTU+1]) {
		t.Error("wrong bytes")
	}
	if len(w.sent[1]) != 15 || w.sent[1][10].PSN != psn.PSN(testPSN0).Add(5) || w.sent[1][10].Opcode != ib.RCWriteMiddle {
		t.Errorf("%d packets sent, the eleventh is %v %v", len(w.sent[1]), w.sent[1][10].Opcode, w.sent[1][10].PSN)
	}
	if a.count(reason.NAKSequence) != 1 || a.count(reason.AckTimeout) != 0 {
		t.Errorf("refused %v", a.refused)
	}
}

func TestCompleterSequenceNAKWithoutProgressCountsAsRetry(t *testing.T) {
	w := newPair(t, func(_ int, p *machine.Port) { p.Attr.RetryCnt = 2 })
	a := w.n[0]
	w.postWrites(2)
	for i := range 3 {
		if w.take(0, 100) != 2 {
			t.Fatalf("round %d: not sent again", i)
		}
		w.inject(0, ackPacket(ib.NAKSequence, testPSN0))
	}
	w.wantStatuses(&a.send, queue.RetryExcErr, queue.WRFlushErr)
}

func TestCompleterProgressResetsRetryCount(t *testing.T) {
	w := newPair(t, func(_ int, p *machine.Port) { p.Attr.RetryCnt = 1 })
	a := w.n[0]
	w.postWrites(6)
	for i := range 6 {
		w.take(0, 100)
		w.inject(0, ackPacket(ib.NAKSequence, psn.PSN(testPSN0).Add(i)))
		if a.port.Attr.State != qp.RTS {
			t.Fatalf("failed at NAK %d", i)
		}
	}
	w.wantStatuses(&a.send, 0, 0, 0, 0, 0)
}

func TestCompleterLostReadResponseIsRequestedAtOnce(t *testing.T) {
	w := newPair(t, nil)
	a, b := w.n[0], w.n[1]
	fill(b.mem, 7)
	w.fate = drop(0, 3) // the fourth response
	a.post(wqe{op: queue.Read, list: []memory.SGE{a.sge(0, 8*testMTU+5)}, remote: b.target(10)})
	w.settle()
	w.wantStatuses(&a.send, 0)
	if !bytes.Equal(a.mem[:8*testMTU+5], b.mem[10:10+8*testMTU+5]) {
		t.Error("wrong bytes")
	}
	if len(w.sent[1]) != 2 || a.count(reason.AckTimeout) != 0 {
		t.Fatalf("%d requests, refused %v", len(w.sent[1]), a.refused)
	}
	again := w.sent[1][1]
	want := ib.RETH{Addr: b.mr.Base + 10 + 3*testMTU, RKey: b.mr.Key, Length: 5*testMTU + 5}
	if again.PSN != psn.PSN(testPSN0).Add(3) || again.RETH != want {
		t.Errorf("asked again at %v for %+v, want %+v", again.PSN, again.RETH, want)
	}
}

func TestCompleterAckAfterLostReadIsImpliedNAK(t *testing.T) {
	w := newPair(t, nil)
	a, b := w.n[0], w.n[1]
	fill(b.mem, 7)
	w.fate = drop(0, 0)
	a.post(wqe{op: queue.Read, list: []memory.SGE{a.sge(0, 8)}, remote: b.target(10)})
	w.postWrites(1)
	w.settle()
	w.wantStatuses(&a.send, 0, 0)
	if a.count(reason.ResponseGap) != 1 || a.count(reason.AckTimeout) != 0 {
		t.Errorf("refused %v", a.refused)
	}
}

func TestCompleterBadResponsesEndTheConnection(t *testing.T) {
	read := func(op ib.Opcode, p psn.PSN, n int) (k ib.Packet) {
		k.Opcode, k.PSN, k.Payload = op, p, make([]byte, n)
		k.AETH.Syndrome = ib.ACKNoCredits
		return k
	}
	const p = psn.PSN(testPSN0)
	nak := read(ib.RCReadResponseFirst, p, testMTU)
	nak.AETH.Syndrome = ib.NAKRemoteAccess
	for _, r := range []struct {
		name   string
		op     queue.Op
		in     []ib.Packet
		status queue.Status
		reason reason.Reason
	}{
		{"middle at the start", queue.Read, []ib.Packet{read(ib.RCReadResponseMiddle, p, testMTU)}, queue.BadRespErr, reason.ResponseOpcode},
		{"only, of a longer READ", queue.Read, []ib.Packet{read(ib.RCReadResponseOnly, p, testMTU)}, queue.BadRespErr, reason.ResponseOpcode},
		{"first twice", queue.Read, []ib.Packet{read(ib.RCReadResponseFirst, p, testMTU), read(ib.RCReadResponseFirst, p.Add(1), testMTU)}, queue.BadRespErr, reason.ResponseOpcode},
		{"last too early", queue.Read, []ib.Packet{read(ib.RCReadResponseFirst, p, testMTU), read(ib.RCReadResponseLast, p.Add(1), testMTU)}, queue.BadRespErr, reason.ResponseOpcode},
		{"first too short", queue.Read, []ib.Packet{read(ib.RCReadResponseFirst, p, testMTU-1)}, queue.LocLenErr, reason.ResponseLength},
		{"last too long", queue.Read, []ib.Packet{read(ib.RCReadResponseFirst, p, testMTU), read(ib.RCReadResponseMiddle, p.Add(1), testMTU), read(ib.RCReadResponseLast, p.Add(2), 2)}, queue.LocLenErr, reason.ResponseLength},
		{"syndrome of a NAK", queue.Read, []ib.Packet{nak}, queue.BadRespErr, reason.ResponseOpcode},
		{"atomic acknowledge of a READ", queue.Read, []ib.Packet{read(ib.RCAtomicAcknowledge, p, 0)}, queue.BadRespErr, reason.ResponseOpcode},
		{"READ response to an atomic", queue.FetchAdd, []ib.Packet{read(ib.RCReadResponseOnly, p, 8)}, queue.BadRespErr, reason.ResponseOpcode},
		{"READ response to a WRITE", queue.Write, []ib.Packet{read(ib.RCReadResponseOnly, p, 8)}, queue.BadRespErr, reason.ResponseOpcode},
	} {
		t.Run(r.name, func(t *testing.T) {
			w := newPair(t, nil)
			a, b := w.n[0], w.n[1]
			n := 2*testMTU + 1
			if r.op.Atomic() {
				n = conn.AtomicLen
			}
			a.post(wqe{op: r.op, list: []memory.SGE{a.sge(0, n)}, remote: b.target(0), atomic: b.word(0)})
			w.take(0, 100)
			for _, k := range r.in {
				w.inject(0, k)
			}
			w.wantStatuses(&a.send, r.status)
			if a.send.list[0].Reason != r.reason {
				t.Errorf("reason %v", a.send.list[0].Reason)
			}
		})
	}
}

func TestCompleterReadWithoutLocalWriteIsLocalProtectionError(t *testing.T) {
	w := newPair(t, nil)
	a, b := w.n[0], w.n[1]
	mr, err := a.port.Memory.Register(7, make([]byte, 64), 0x900000, 0)
	if err != nil {
		t.Fatal(err)
	}
	a.post(wqe{op: queue.Read, list: []memory.SGE{{Addr: 0x900000, Length: 8, LKey: mr.Key}}, remote: b.target(0)})
	w.settle()
	w.wantStatuses(&a.send, queue.LocProtErr)
	if len(w.sent[1]) != 0 {
		t.Error("a request left nevertheless")
	}
}

func TestCompleterMemoryGoneWhileReadingIsLocalProtectionError(t *testing.T) {
	w := newPair(t, nil)
	a, b := w.n[0], w.n[1]
	mr, err := a.port.Memory.Register(7, make([]byte, 1024), 0x900000, qp.LocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	a.post(wqe{op: queue.Read, list: []memory.SGE{{Addr: 0x900000, Length: 1024, LKey: mr.Key}}, remote: b.target(0)})
	w.take(0, 1)
	if err := a.port.Memory.Deregister(mr); err != nil {
		t.Fatal(err)
	}
	w.settle()
	w.wantStatuses(&a.send, queue.LocProtErr)
}

// Linux's responder continues a repeated READ with a Middle packet where others start again with
// First.
func TestCompleterAnswerToRepeatedReadMayStartInTheMiddle(t *testing.T) {
	for _, op := range []ib.Opcode{ib.RCReadResponseFirst, ib.RCReadResponseMiddle} {
		w := newPair(t, nil)
		a, b := w.n[0], w.n[1]
		a.post(wqe{op: queue.Read, list: []memory.SGE{a.sge(0, 4*testMTU)}, remote: b.target(0)})
		w.take(0, 1)
		k := ib.Packet{Payload: make([]byte, testMTU)}
		k.AETH.Syndrome = ib.ACKNoCredits
		for i, o := range []ib.Opcode{ib.RCReadResponseFirst, op, ib.RCReadResponseMiddle, ib.RCReadResponseLast} {
			k.Opcode, k.PSN = o, psn.PSN(testPSN0).Add(i)
			if i == 1 {
				w.now = a.q.Deadline()
				a.q.Expire(w.now)
				w.take(0, 1)
			}
			w.inject(0, k)
		}
		w.wantStatuses(&a.send, queue.Success)
	}
}
