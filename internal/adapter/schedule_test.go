package adapter

import (
	"slices"
	"testing"

	"softrdma/internal/link"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
)

// Queue pairs of a flow come together, and each has its turn before any has a
// second one.
func TestReadyListTakesFlowsInTurn(t *testing.T) {
	f, g := &txFlow{}, &txFlow{}
	var r readyList
	all := map[string]*QP{}
	for name, flow := range map[string]*txFlow{"f1": f, "f2": f, "f3": f, "g1": g, "g2": g, "n1": nil, "n2": nil} {
		all[name] = &QP{flow: flow}
	}
	push := func(names ...string) {
		for _, n := range names {
			r.push(all[n])
		}
	}
	var got []string
	pop := func() string {
		q := r.pop()
		for n := range all {
			if all[n] == q {
				got = append(got, n)
				return n
			}
		}
		return ""
	}
	push("f1", "g1", "n1", "f2", "g2", "n2", "f2")
	for n := pop(); n != ""; n = pop() {
		switch len(got) {
		case 1, 3:
			push(n) // has more
		case 2:
			push("f3") // comes while others of its flow have their turn
		case 4:
			all["n2"].destroyed = true
		}
	}
	if want := []string{"f1", "f2", "g1", "g2", "n1", "f1", "f3", "g1"}; !slices.Equal(got, want) {
		t.Errorf("order %v, expected %v", got, want)
	}
	if r.n != 0 || r.turn != nil || r.first != nil || f.first != nil || all["f1"].next != nil {
		t.Errorf("%d queue pairs are left: %+v", r.n, r)
	}
}

// Memory of a fifo is taken again, and holds on to nothing.
func TestFIFOTakesItsMemoryAgain(t *testing.T) {
	var f fifo[*int]
	for i := range 1000 {
		f.push(&i)
		if i >= 5 {
			if got := *f.pop(); got != i-5 {
				t.Fatalf("took %d, expected %d", got, i-5)
			}
		}
	}
	held := 0
	for _, p := range f.list[:cap(f.list)] {
		if p != nil {
			held++
		}
	}
	if cap(f.list) > 16 || held != f.len() || f.len() != 5 {
		t.Errorf("room for %d, %d pointers for %d entries", cap(f.list), held, f.len())
	}
}

// Messages of many queue pairs to a peer leave as one batch a flow, and when the
// system refuses it all of them know.
func TestMessagesOfManyQueuePairsLeaveTogether(t *testing.T) {
	const n = 40
	e := newEnd(t, "192.0.2.1:4791", Config{Manual: true}, qp.UD, 64)
	l := e.dev.lanes[0]
	var all []*QP
	flows := map[*txFlow]int{}
	for range n {
		q := e.create(qp.RC, e.cq)
		flows[q.flow]++
		all = append(all, q)
	}
	if len(flows) < 2 || len(flows) > flowSpread {
		t.Fatalf("%d flows, expected 2 to %d", len(flows), flowSpread)
	}
	e.link.refuse = link.ErrClosed
	l.mu.Lock()
	for _, q := range all {
		e.send(q, 1, queue.SendWQE{Op: queue.Send})
	}
	l.unlock()
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

// Flows are shared, closed by their last user, and those of a host with itself
// are one for each lane.
func TestFlowsToAPeerAreFew(t *testing.T) {
	for addr, most := range map[string]int{"192.0.2.1:4791": flowSpread, "192.0.2.9:4792": 1} { // the peer is 192.0.2.9
		e := newEnd(t, addr, Config{Manual: true}, qp.RC, 64)
		for range 100 {
			e.create(qp.RC, e.cq)
		}
		l := e.dev.lanes[0]
		if n := len(l.flows); n != most {
			t.Errorf("%s: %d flows, expected %d", addr, n, most)
		}
		uses := 0
		for _, f := range l.flows {
			uses += f.uses
		}
		if uses != 101 {
			t.Errorf("%s: %d uses, expected 101", addr, uses)
		}
		for _, q := range l.qps {
			e.check(q.Destroy())
		}
		if len(l.flows) != 0 {
			t.Errorf("%s: %d flows are left", addr, len(l.flows))
		}
	}
}
