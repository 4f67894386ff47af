package rc

import (
	"bytes"
	"slices"
	"testing"

	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/psn"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// testSRQN is the number of the queue that node 1 has by itself, in the domain of its memory.
const testSRQN = 0x51

// asXRC makes node 0 an initiator and node 1 a target, which has its own queue.
func asXRC(i int, p *machine.Port) {
	p.Type = []qp.Type{qp.XRCSend, qp.XRCRecv}[i]
	rq := p.RQ
	p.RQ = nil
	if i == 1 {
		p.Aim = func(n uint32) reason.Detail {
			if n != testSRQN {
				return reason.Detail{Reason: reason.XRCQueue, Expected: 1, Found: uint64(n)}
			}
			p.RQ = rq
			return reason.Detail{}
		}
	}
}

func newXRCPair(t *testing.T) *pair { return newPair(t, asXRC) }

// A sharedQueue is a shared receive queue of node 1 in a protection domain of its own.
type sharedQueue struct {
	receives
	number, pd uint32
	mem        []byte
	mr         *memory.Region
	done       completions
}

func (s *sharedQueue) post(wrid uint64, off, n int) {
	i := s.Producer()
	*s.At(i) = queue.RecvWQE{WRID: wrid, NumSGE: 1}
	s.SGERoom(i)[0] = memory.SGE{Addr: s.mr.Base + uint64(off), Length: uint32(n), LKey: s.mr.Key}
	s.Publish(s.Next(i))
}

// newSharedQueues gives the target so many queues instead of its own.
func newSharedQueues(t *testing.T, w *pair, n int) []*sharedQueue {
	p := &w.n[1].port
	var all []*sharedQueue
	for i := range n {
		s := &sharedQueue{receives: receives{queue.NewRecvRing(15, 2), true}, number: uint32(0x100 + i), pd: uint32(70 + i), mem: asBytes(make([]uint64, 1024))}
		var err error
		if s.mr, err = p.Memory.Register(s.pd, s.mem, 0x10000, allAccess); err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	p.Aim = func(n uint32) reason.Detail {
		for _, s := range all {
			if s.number == n {
				p.RQ, p.RecvCQ, p.PD, p.RecvPD = s, &s.done, s.pd, s.pd
				return reason.Detail{}
			}
		}
		return reason.Detail{Reason: reason.XRCQueue, Expected: uint64(len(all)), Found: uint64(n)}
	}
	return all
}

func TestXRCMessagesGoToTheQueueThatTheyName(t *testing.T) {
	w := newXRCPair(t)
	a := w.n[0]
	list := newSharedQueues(t, w, 2)
	for i := range 1000 {
		a.mem[i] = byte(i)
	}
	for i, s := range list {
		s.post(uint64(10+i), 0, 1000)
		s.post(uint64(20+i), 1000, 0)
	}
	for _, i := range []int{1, 0} {
		a.post(wqe{op: queue.SendImm, imm: uint32(i), list: []memory.SGE{a.sge(0, 600)}, srqn: list[i].number})
	}
	for _, i := range []int{0, 1} { // keys are of the queue's domain
		a.post(wqe{op: queue.WriteImm, imm: 7, list: []memory.SGE{a.sge(0, 300)}, srqn: list[i].number, remote: queue.RDMA{Addr: list[i].mr.Base + 2000, RKey: list[i].mr.Key}})
		a.post(wqe{op: queue.Read, list: []memory.SGE{a.sge(4096+1024*i, 600)}, srqn: list[i].number, remote: queue.RDMA{Addr: list[i].mr.Base, RKey: list[i].mr.Key}})
		a.post(wqe{op: queue.FetchAdd, list: []memory.SGE{a.sge(8192, 8)}, srqn: list[i].number, atomic: queue.Atomic{Addr: list[i].mr.Base + 4000, RKey: list[i].mr.Key, CompareAdd: 5}})
	}
	w.settle()
	w.wantStatuses(&a.send, slices.Repeat([]queue.Status{queue.Success}, 8)...)
	for i, s := range list {
		w.wantStatuses(&s.done, queue.Success, queue.Success)
		if c := s.done.list[0]; c.WRID != uint64(10+i) || c.QPN != w.n[1].port.QPN || c.ImmInv != uint32(i) || c.ByteLen != 600 {
			t.Errorf("queue %d: completion %+v", i, c)
		}
		if !bytes.Equal(s.mem[:600], a.mem[:600]) || !bytes.Equal(s.mem[2000:2300], a.mem[:300]) || !bytes.Equal(a.mem[4096+1024*i:][:600], a.mem[:600]) || s.mem[4000] != 5 {
			t.Errorf("queue %d: wrong bytes", i)
		}
	}
	for _, p := range w.sent[1] {
		if p.Opcode.Transport() != ib.XRC || p.XRCETH.SRQN != list[0].number && p.XRCETH.SRQN != list[1].number {
			t.Errorf("request %v", &p)
		}
	}
	for _, p := range w.sent[0] {
		if p.Opcode.Transport() != ib.XRC {
			t.Errorf("answer %v", &p)
		}
	}
}

func TestXRCKeyOfAnotherQueuesDomainIsRefused(t *testing.T) {
	w := newXRCPair(t)
	a, list := w.n[0], newSharedQueues(t, w, 2)
	a.post(wqe{op: queue.Write, list: []memory.SGE{a.sge(0, 8)}, srqn: list[0].number, remote: queue.RDMA{Addr: list[1].mr.Base, RKey: list[1].mr.Key}})
	w.settle()
	w.wantStatuses(&a.send, queue.RemAccessErr)
	if w.n[1].count(reason.KeyWrongPD) != 1 {
		t.Errorf("refused %v, expected KEY_WRONG_PD", w.n[1].refused)
	}
}

func TestXRCUnknownQueueIsRefused(t *testing.T) {
	w := newXRCPair(t)
	a, b := w.n[0], w.n[1]
	list := newSharedQueues(t, w, 1)
	list[0].post(1, 0, 100)
	a.post(wqe{op: queue.Send, list: []memory.SGE{a.sge(0, 8)}, srqn: 0x999})
	a.post(wqe{op: queue.Send, list: []memory.SGE{a.sge(0, 8)}, srqn: list[0].number})
	w.settle()
	w.wantStatuses(&a.send, queue.RemInvReqErr, queue.WRFlushErr)
	if b.port.Attr.State != qp.Err || b.count(reason.XRCQueue) != 1 || b.raised(machine.EventQPReqErr) != 1 || b.raised(machine.EventQPLastWQEReached) != 1 {
		t.Errorf("target in %v, refused %v, events %v", b.port.Attr.State, b.refused, b.events)
	}
	if len(list[0].done.list) != 0 || list[0].Len() != 1 {
		t.Error("the queue of the other request lost its receive")
	}
}

// requestTo is packet number p of a SEND that names a queue.
func requestTo(op ib.Opcode, p int, srqn uint32, n int) ib.Packet {
	return ib.Packet{BTH: ib.BTH{Opcode: op.Of(ib.XRC), PSN: psn.New(testPSN0).Add(p), AckReq: true}, XRCETH: ib.XRCETH{SRQN: srqn}, Payload: make([]byte, n)}
}

func TestXRCMessageThatChangesItsQueueIsRefused(t *testing.T) {
	w := newXRCPair(t)
	b, list := w.n[1], newSharedQueues(t, w, 2)
	for _, s := range list {
		s.post(1, 0, 1000)
	}
	w.inject(1, requestTo(ib.RCSendFirst, 0, list[0].number, testMTU))
	w.inject(1, requestTo(ib.RCSendLast, 1, list[1].number, 8))
	w.quiet()
	w.wantStatuses(&list[0].done, queue.RemInvReqErr)
	if b.count(reason.XRCQueueChanged) != 1 || len(list[1].done.list) != 0 || b.port.Attr.State != qp.Err {
		t.Errorf("refused %v, second queue completed %v", b.refused, list[1].done.list)
	}
}

// A READ that is asked for again is answered out of the domain of its own queue, although
// another queue's request came since.
func TestXRCDuplicateReadKeepsItsDomain(t *testing.T) {
	w := newXRCPair(t)
	a, list := w.n[0], newSharedQueues(t, w, 2)
	list[1].post(1, 0, 100)
	list[0].mem[3] = 9
	lost := false
	w.fate = func(to, _ int, p *ib.Packet) (int, int) {
		if to == 0 && p.Opcode == ib.RCReadResponseOnly.Of(ib.XRC) && !lost {
			lost = true
			return 0, 0
		}
		return 1, 0
	}
	a.post(wqe{op: queue.Read, list: []memory.SGE{a.sge(0, 8)}, srqn: list[0].number, remote: queue.RDMA{Addr: list[0].mr.Base, RKey: list[0].mr.Key}})
	a.post(wqe{op: queue.Send, list: []memory.SGE{a.sge(64, 8)}, srqn: list[1].number})
	w.settle()
	w.wantStatuses(&a.send, queue.Success, queue.Success)
	if !lost || a.mem[3] != 9 || len(list[1].done.list) != 1 {
		t.Errorf("read %d, completions %v", a.mem[3], list[1].done.list)
	}
}

func TestXRCWaitsForAReceiveOfTheNamedQueue(t *testing.T) {
	w := newXRCPair(t)
	a, list := w.n[0], newSharedQueues(t, w, 2)
	list[0].post(1, 0, 100)
	a.post(wqe{op: queue.Send, list: []memory.SGE{a.sge(0, 8)}, srqn: list[1].number})
	w.quiet()
	if w.n[1].count(reason.NoReceive) != 1 || list[0].Len() != 1 {
		t.Fatalf("refused %v, expected NO_RECEIVE", w.n[1].refused)
	}
	list[1].post(2, 0, 100)
	w.settle()
	w.wantStatuses(&a.send, queue.Success)
	w.wantStatuses(&list[1].done, queue.Success)
}

func TestXRCEndsRefuseWhatIsNotTheirs(t *testing.T) {
	w := newXRCPair(t)
	ack := ib.Packet{BTH: ib.BTH{Opcode: ib.RCAcknowledge.Of(ib.XRC), PSN: testPSN1}}
	plain := ib.Packet{BTH: ib.BTH{Opcode: ib.RCSendOnly, PSN: testPSN0}}
	for i, p := range []ib.Packet{requestTo(ib.RCSendOnly, 0, testSRQN, 8), ack, plain} {
		to := min(i, 1)
		before := w.n[to].count(reason.OpcodeUnsupported)
		w.inject(to, p)
		if w.n[to].count(reason.OpcodeUnsupported) != before+1 || w.n[to].port.Attr.State != qp.RTS {
			t.Errorf("%v to node %d: refused %v", p.Opcode, to, w.n[to].refused)
		}
	}
	w.quiet()
	if len(w.sent[0])+len(w.sent[1]) != 0 {
		t.Errorf("answered: %v, %v", w.opcodes(0), w.opcodes(1))
	}
}

func TestXRCLacksTheOperationsOfAnnexA19(t *testing.T) {
	for _, op := range annexOps {
		w := newXRCPair(t)
		a := w.n[0]
		a.post(wqe{op: op, srqn: testSRQN, remote: queue.RDMA{Addr: w.n[1].mr.Base, RKey: w.n[1].mr.Key}, flush: queue.FlushTarget{Placement: 1}})
		w.settle()
		w.wantStatuses(&a.send, queue.LocQPOpErr)
		if len(w.sent[1]) != 0 {
			t.Errorf("%v sent %v", op, w.opcodes(1))
		}
	}
}

func TestXRCWithdrawnQueueIsRefusedInMidMessage(t *testing.T) {
	w := newXRCPair(t)
	b, list := w.n[1], newSharedQueues(t, w, 1)
	list[0].post(1, 0, 1000)
	w.inject(1, requestTo(ib.RCSendFirst, 0, list[0].number, testMTU))
	XRC{QP: b.q}.Withdraw()
	b.port.RQ, b.port.RecvCQ = nil, nil // whatever completes there panics
	b.port.Aim = func(n uint32) reason.Detail { return reason.Detail{Reason: reason.XRCQueue, Found: uint64(n)} }
	w.inject(1, requestTo(ib.RCSendLast, 1, list[0].number, 8))
	w.quiet()
	if len(list[0].done.list) != 0 || b.count(reason.XRCQueue) != 1 || b.port.Attr.State != qp.Err {
		t.Errorf("completed %v, refused %v, target in %v", list[0].done.list, b.refused, b.port.Attr.State)
	}
}

// The shortcuts of a QP are for packets without an XRCETH: with them, a middle packet that is four
// bytes short would be taken for a whole one.
func TestXRCTakesNoShortcuts(t *testing.T) {
	if c := (XRC{}).Capabilities(); c.Continuer != nil || c.Follower != nil {
		t.Errorf("an XRC is a Continuer (%v) or a Follower (%v)", c.Continuer != nil, c.Follower != nil)
	}
}
