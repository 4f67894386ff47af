package adapter

import (
	"testing"

	"softrdma/internal/frame/rocev2"
	"softrdma/internal/link"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
)

// Messages of many queue pairs to one peer leave in one batch per flow. If the system refuses the
// batch, each of them is notified.
func TestMessagesOfManyQueuePairsLeaveTogether(t *testing.T) {
	const n = 40
	e := newEnd(t, "192.0.2.1:4791", Config{Manual: true}, qp.UD, 64)
	l := e.dev.packets[0]
	var all []*QP
	flows := map[*txFlow]int{}
	for range n {
		q := e.create(qp.RC, e.cq)
		flows[q.flow]++
		all = append(all, q)
	}
	if len(flows) < 2 || len(flows) > rocev2.Spread {
		t.Fatalf("%d flows, expected 2 to %d", len(flows), rocev2.Spread)
	}
	e.link.refuse = link.ErrClosed
	l.Lock()
	for _, q := range all {
		e.send(q, 1, queue.SendWQE{Op: queue.Send})
	}
	l.Unlock()
	sizes := map[int]int{}
	for _, b := range e.link.sent {
		sizes[len(b)]++
	}
	if len(e.link.sent) != len(flows) {
		t.Errorf("%d batches for %d flows, by length %v", len(e.link.sent), len(flows), sizes)
	}
	for _, users := range flows {
		if sizes[users*16] == 0 {
			t.Errorf("no batch of %d packets, by length %v", users, sizes)
		}
	}
	for i, q := range all {
		if q.sendError.Reason == 0 {
			t.Errorf("queue pair %d does not know that its packet was refused", i)
		}
	}
}

// Flows are shared and closed by their last user. Loopback uses one flow per lane.
func TestFlowsToAPeerAreFew(t *testing.T) {
	for addr, most := range map[string]int{"192.0.2.1:4791": rocev2.Spread, "192.0.2.9:4792": 1} { // the peer is 192.0.2.9
		e := newEnd(t, addr, Config{Manual: true}, qp.RC, 64)
		for range 100 {
			e.create(qp.RC, e.cq)
		}
		l := e.dev.packets[0]
		if n := len(l.flows.open); n != most {
			t.Errorf("%s: %d flows, expected %d", addr, n, most)
		}
		uses := 0
		for _, f := range l.flows.open {
			uses += f.uses
		}
		if uses != 101 {
			t.Errorf("%s: %d uses, expected 101", addr, uses)
		}
		for _, q := range l.qps {
			e.check(q.Destroy())
		}
		if len(l.flows.open) != 0 {
			t.Errorf("%s: %d flows are left", addr, len(l.flows.open))
		}
	}
}
