package rc

import (
	"testing"

	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
)

// newTimedPair connects a pair whose requests are signalled only on demand, and lets it measure its
// round trip.
func newTimedPair(t testing.TB, tune func(p *machine.Port)) *pair {
	w := newPair(t, func(_ int, p *machine.Port) {
		p.SQSigAll = false
		p.Attr.Timeout = 14
		if tune != nil {
			tune(p)
		}
	})
	w.post8(1, queue.Signaled)
	w.settle()
	w.sent[1], w.sent[0], w.n[0].send.list, w.n[0].refused = nil, nil, nil, nil
	return w
}

// post8 posts n WRITEs of 8 bytes from node 0.
func (w *pair) post8(n int, f queue.Flags) {
	for range n {
		w.n[0].post(wqe{op: queue.Write, flags: f, list: []memory.SGE{w.n[0].sge(0, 8)}, remote: w.n[1].target(0)})
		w.quiet()
	}
}

// ackReqs lists the packets to node 1 that request an acknowledge.
func (w *pair) ackReqs() (list []int) {
	for i, p := range w.sent[1] {
		if p.AckReq {
			list = append(list, i)
		}
	}
	return list
}

func TestShortUnsignalledMessageRequestsNoAcknowledge(t *testing.T) {
	w := newTimedPair(t, nil)
	w.post8(3, 0)
	if got := w.ackReqs(); got != nil || len(w.sent[0]) != 0 {
		t.Errorf("packets %v asked, %d acknowledges came", got, len(w.sent[0]))
	}
	w.post8(1, queue.Signaled)
	if got := w.ackReqs(); len(got) != 1 || got[0] != 3 || len(w.sent[0]) != 1 {
		t.Errorf("packets %v asked, %d acknowledges came", got, len(w.sent[0]))
	}
	w.wantStatuses(&w.n[0].send, queue.Success)
	if n := w.n[0].port.SQ.Len(); n != 0 {
		t.Errorf("%d requests are left in the queue", n)
	}
}

func TestLastUnsignalledMessageIsProbedFor(t *testing.T) {
	for _, lost := range []bool{false, true} {
		w := newTimedPair(t, nil)
		w.n[0].mem[0] = 7
		if lost {
			w.fate = drop(1, w.count[1])
		}
		w.post8(1, 0)
		start := w.now
		w.settle()
		a := w.n[0]
		if a.count(reason.TailProbe) != 1 || a.count(reason.AckTimeout) != 0 || w.now-start > a.port.Attr.AckTimeout()/4 {
			t.Errorf("lost %v: after %v, refused %v", lost, w.now-start, a.refused)
		}
		if a.port.SQ.Len() != 0 || w.n[1].mem[0] != 7 {
			t.Errorf("lost %v: %d requests left, %d arrived", lost, a.port.SQ.Len(), w.n[1].mem[0])
		}
	}
}

// A program that waits for events sends a short message, and the next one much later.
func TestRareUnsignalledMessagesRequestAcknowledges(t *testing.T) {
	w := newTimedPair(t, nil)
	for range 100 {
		w.post8(1, 0)
		w.settle()
	}
	if n, again := w.n[0].count(reason.TailProbe), w.n[0].count(reason.RepeatNeedless); n != 1 || again > 1 {
		t.Errorf("%d probes, %d of them needless, for 100 messages, expected 1", n, again)
	}
}

// Without a request for an acknowledge a queue or window full of unsignalled messages would stall
// until the probe.
func TestUnsignalledMessagesRequestAcknowledgeBeforeQueueOrWindowIsFull(t *testing.T) {
	for name, tune := range map[string]func(p *machine.Port){
		"queue":  nil,
		"window": func(p *machine.Port) { p.Window = 16 * (8 + overhead) },
	} {
		w := newTimedPair(t, tune)
		start := w.now
		w.post8(300, 0)
		got := w.ackReqs()
		if len(got) < 300/16 || len(got) > 300/3 {
			t.Errorf("%s: %d of 300 asked", name, len(got))
		}
		if n := w.n[0].count(reason.TailProbe); n != 0 {
			t.Errorf("%s: %d probes within %v", name, n, w.now-start)
		}
	}
}

func TestMessageRequestsAcknowledgeUnlessProbeIsCheapAndInTime(t *testing.T) {
	ask := func(w *pair, n int) {
		t.Helper()
		w.n[0].post(wqe{op: queue.Write, list: []memory.SGE{w.n[0].sge(0, n)}, remote: w.n[1].target(0)})
		w.quiet()
		if len(w.ackReqs()) != 1 || w.n[0].port.SQ.Len() != 0 {
			t.Errorf("%d packets sent, %v asked", len(w.sent[1]), w.ackReqs())
		}
	}
	ask(newPair(t, func(_ int, p *machine.Port) { p.SQSigAll = false }), 8)    // no round trip is known yet
	ask(newTimedPair(t, func(p *machine.Port) { p.Attr.Timeout = 6 }), 8)      // the timeout is close
	ask(newTimedPair(t, func(p *machine.Port) { p.SQSigAll = true }), 8)       // all are signalled
	ask(newTimedPair(t, func(p *machine.Port) { p.Attr.PathMTU = 1024 }), 257) // repeating it would cost too much
	w := newTimedPair(t, nil)
	w.post8(3, 0)
	w.n[0].port.Attr.SQDraining = true
	w.n[0].to(w.now, qp.SQD)
	w.settle()
	if w.n[0].port.Attr.SQDraining {
		t.Error("the send queue does not drain")
	}
}
