package rc

import (
	"testing"

	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

func TestReceiveFromAnotherAddressRefused(t *testing.T) {
	w := newPair(t, nil)
	b := w.n[1]
	in := machine.In{Src: testAddrs[1]}
	in.Opcode, in.PSN = ib.RCSendOnly, testPSN0
	b.q.Receive(0, &in)
	if b.count(reason.PacketSource) != 1 || b.refused[0].Expected != 0x0a000001 || b.refused[0].Found != 0x0a000002 {
		t.Errorf("refused %v", b.refused)
	}
}

func TestReceiveInRTRRaisesCommunicationEstablishedOnce(t *testing.T) {
	w := newPair(t, nil)
	b := w.n[1]
	b.to(0, qp.Reset)
	b.to(0, qp.Init)
	w.inject(1, requestPacket(ib.RCSendOnly, 0, 0))
	if b.count(reason.PacketQPState) != 1 {
		t.Errorf("refused %v", b.refused)
	}
	b.to(0, qp.RTR)
	b.postRecv(1)
	w.inject(1, requestPacket(ib.RCSendOnly, 0, 0))
	w.inject(1, requestPacket(ib.RCSendOnly, 0, 0))
	if b.raised(machine.EventCommEst) != 1 {
		t.Errorf("events %v", b.events)
	}
	w.wantStatuses(&b.recv, 0)
	if got := w.answers(); len(got) != 1 {
		t.Errorf("answers in RTR %+v", got)
	}
}

func TestErrorKeepsSharedReceivesAndReportsLastWQE(t *testing.T) {
	w := newPair(t, func(_ int, p *machine.Port) { p.RQ.(*receives).shared = true })
	b := w.n[1]
	b.postRecv(1, b.sge(0, 1000))
	b.postRecv(2, b.sge(0, 1000))
	w.inject(1, requestPacket(ib.RCSendFirst, 0, testMTU)) // takes a receive
	b.to(0, qp.Err)
	w.take(1, 10)
	w.wantStatuses(&b.recv, queue.WRFlushErr)
	if b.rq.Len() != 1 || b.raised(machine.EventQPLastWQEReached) != 1 {
		t.Errorf("%d shared receives left, events %v", b.rq.Len(), b.events)
	}
}

func TestResetForgetsEverything(t *testing.T) {
	w := newPair(t, nil)
	a, b := w.n[0], w.n[1]
	w.postWrites(3)
	a.post(wqe{op: queue.Read, list: []memory.SGE{a.sge(0, 8)}, remote: b.target(0)})
	a.postRecv(1)
	w.take(0, 2)
	for _, n := range w.n {
		n.to(0, qp.Reset)
	}
	w.wire = [2][]packet{}
	if len(a.send.list)+len(a.recv.list) != 0 || a.port.SQ.Len() != 0 || a.rq.Len() != 0 || a.q.Deadline() != machine.Never {
		t.Fatalf("completions %v %v, %d and %d left", a.send.list, a.recv.list, a.port.SQ.Len(), a.rq.Len())
	}
	for _, s := range []qp.State{qp.Init, qp.RTR, qp.RTS} {
		a.to(0, s)
		b.to(0, s)
	}
	w.postWrites(2)
	w.settle()
	w.wantStatuses(&a.send, 0, 0)
}
