package rc

import (
	"testing"

	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/wire/ib"
)

func TestRequesterDrainFinishesStartedMessages(t *testing.T) {
	w := newPair(t, func(_ int, p *machine.Port) { p.Window, p.Attr.EnSQDNotify = testMTU+overhead, true })
	a, b := w.n[0], w.n[1]
	for range 3 {
		a.post(wqe{op: queue.Write, list: []memory.SGE{a.sge(0, 4*testMTU)}, remote: b.target(0)})
	}
	w.take(0, 1)
	a.to(w.now, qp.SQD)
	if !a.port.Attr.SQDraining || a.raised(machine.EventSQDrained) != 0 {
		t.Fatal("drained with a message under way")
	}
	w.settle()
	w.wantStatuses(&a.send, queue.Success)
	if a.port.Attr.SQDraining || a.raised(machine.EventSQDrained) != 1 {
		t.Errorf("draining %v, events %v", a.port.Attr.SQDraining, a.events)
	}
	a.to(w.now, qp.RTS)
	w.settle()
	w.wantStatuses(&a.send, 0, 0, 0)
}

func TestRequesterDrainOfIdleQueueEndsAtOnce(t *testing.T) {
	w := newPair(t, func(_ int, p *machine.Port) { p.Attr.EnSQDNotify = true })
	a := w.n[0]
	a.to(w.now, qp.SQD)
	if a.port.Attr.SQDraining || a.raised(machine.EventSQDrained) != 1 {
		t.Errorf("draining %v, events %v", a.port.Attr.SQDraining, a.events)
	}
}

func TestRequesterErrorSilencesResponder(t *testing.T) {
	w := newPair(t, nil)
	a, b := w.n[0], w.n[1]
	b.post(wqe{op: queue.Read, list: []memory.SGE{b.sge(0, 3000)}, remote: a.target(0)})
	w.postWrites(1)
	w.take(1, 1)
	w.take(0, 1)
	w.deliver(0, 1)
	if n := w.take(0, 2); n != 2 {
		t.Fatalf("%d READ responses", n)
	}
	w.inject(0, ackPacket(ib.NAKRemoteOperational, testPSN0))
	w.wantStatuses(&a.send, queue.RemOpErr)
	if n := w.take(0, 100); n != 0 {
		t.Errorf("%d packets sent in the error state", n)
	}
}

func TestRequesterDrainStartsNoWaitingMessage(t *testing.T) {
	w := newPair(t, func(_ int, p *machine.Port) { p.Attr.MaxRdAtomic = 1 })
	a, b := w.n[0], w.n[1]
	for range 2 {
		a.post(wqe{op: queue.Read, list: []memory.SGE{a.sge(0, 8)}, remote: b.target(0)})
	}
	w.take(0, 10)
	a.to(w.now, qp.SQD)
	w.settle()
	w.wantStatuses(&a.send, 0)
	if a.port.Attr.SQDraining {
		t.Error("still draining")
	}
	a.to(w.now, qp.RTS)
	w.settle()
	w.wantStatuses(&a.send, 0, 0)
}
