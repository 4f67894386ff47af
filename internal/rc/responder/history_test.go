package responder

import (
	"testing"

	"softrdma/internal/machine"
	"softrdma/internal/machine/machinetest"
	"softrdma/internal/psn"
	"softrdma/internal/qp"
	"softrdma/internal/rc/conn"
	"softrdma/internal/wire/ib"
)

// A history grows by need, keeps the youngest when it shrinks, and answers in the order of PSNs.
func TestHistoryKeepsTheYoungest(t *testing.T) {
	const depth, most, all = 3, 20, 57
	var h history
	h.current = noResource
	first := func(i int) psn.PSN { return psn.New(0xffffe0).Add(4 * i) } // wraps
	check := func(from, to int) {
		t.Helper()
		for i := range to {
			for _, off := range []int{0, 2} {
				if res := h.lookup(first(i).Add(off)); (res != nil) != (i >= from) || res != nil && res.first != first(i) {
					t.Fatalf("resource %d of %d to %d: %+v", i, from, to, res)
				}
			}
			if h.lookup(first(i).Add(3)) != nil {
				t.Fatal("a PSN between two READs is found")
			}
		}
	}
	for i := range all {
		if !h.vacant(depth, most) {
			t.Fatalf("no place for resource %d", i)
		}
		var in machine.In
		in.PSN = first(i)
		h.remember(&in, 0).count = 3
		if i%2 == 1 { // two are answered together
			for _, k := range []int{i - 1, i} {
				if res := h.oldest(); res.first != first(k) {
					t.Fatalf("%v is answered before %v", res.first, first(k))
				}
				h.answered(h.oldest())
			}
		}
	}
	check(all-most, all)
	h.answered(h.oldest())
	h.resize(7)
	check(all-7, all)
	h.owe(h.lookup(first(all - 2)))
	h.owe(h.lookup(first(all - 5)))
	for _, k := range []int{5, 2} {
		if res := h.oldest(); res.first != first(all-k) {
			t.Errorf("%v is answered again, expected %v", res.first, first(all-k))
		}
		h.answered(h.oldest())
	}
	if !h.vacant(30, 30) || len(h.ring) != 30 {
		t.Errorf("%d places", len(h.ring))
	}
	check(all-7, all)
	if h.pending != 0 || h.vacant(0, 0) {
		t.Errorf("%d pending", h.pending)
	}
}

// What a responder has said that it remembers does not become less while the peer may rely on it. When the peer has not
// asked for long, the memory is freed.
func TestKeptReadsAreForgottenLater(t *testing.T) {
	p := machinetest.New(qp.RC, 5, 4)
	p.Attr.State, p.Attr.PathMTU, p.Attr.MaxDestRdAtomic = qp.RTS, 1024, 2
	c := &conn.Conn{Port: &p.Port, Done: machine.NewCompletions(&p.Port), Stop: func() {}, Peer: conn.Selective, Trusted: true}
	var r Responder
	s := NewStore(512 << 20)
	r.Init(c, s)
	r.Start()
	in := &machine.In{}
	in.Opcode, in.Wide = ib.RCReadRequest, true
	r.Widen(0, in)
	kept := r.wide.kept
	for range 5 {
		s.share(0, &reordering{answers: answers{store: s}})
	}
	if r.Widen(1, in); kept != conn.MaxKept || r.wide.kept != kept {
		t.Errorf("%d READs are remembered, then %d", kept, r.wide.kept)
	}
	for i := range 100 {
		if !r.history.vacant(2, int(kept)) {
			t.Fatalf("no place for READ %d", i)
		}
		var in machine.In
		in.PSN = r.Expected().Add(i)
		r.history.remember(&in, 0)
		r.history.answered(r.history.oldest())
	}
	if r.Expire(keepTime); len(r.history.ring) < 100 || r.Deadline() != 1+keepTime {
		t.Errorf("%d places, forgotten after %v", len(r.history.ring), r.Deadline())
	}
	if r.Expire(1 + keepTime); len(r.history.ring) != 2*conn.KeepFactor || r.Deadline() != machine.Never || r.wide.span != 0 {
		t.Errorf("%d places, next look after %v", len(r.history.ring), r.Deadline())
	}
}
