package rc

import (
	"testing"

	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
)

func TestRequesterLocalErrorCompletesAfterEarlierRequests(t *testing.T) {
	good := func(n *node) memory.SGE { return n.sge(0, 8) }
	for _, r := range []struct {
		name   string
		wqe    func(a, b *node) wqe
		status queue.Status
		reason reason.Reason
	}{
		{"unknown L_Key, one packet", func(a, b *node) wqe {
			return wqe{op: queue.Write, list: []memory.SGE{{Addr: a.mr.Base, Length: 8, LKey: a.mr.Key ^ 0x100}}, remote: b.target(0)}
		}, queue.LocProtErr, reason.LocalKey},
		{"entry outside, many packets", func(a, b *node) wqe {
			return wqe{op: queue.Send, list: []memory.SGE{a.sge(testMem-600, 601)}}
		}, queue.LocProtErr, reason.LocalBounds},
		{"entry outside, one packet", func(a, b *node) wqe {
			return wqe{op: queue.Send, list: []memory.SGE{a.sge(testMem-8, 9)}}
		}, queue.LocProtErr, reason.LocalBounds},
		{"over 2^31 bytes", func(a, b *node) wqe {
			s := memory.SGE{Addr: a.mr.Base, Length: 1 << 31, LKey: a.mr.Key}
			return wqe{op: queue.Write, list: []memory.SGE{s, good(a)}, remote: b.target(0)}
		}, queue.LocLenErr, reason.LocalLength},
		{"fetch-and-add without room", func(a, b *node) wqe {
			return wqe{op: queue.FetchAdd, list: []memory.SGE{a.sge(0, 7)}, atomic: b.word(0)}
		}, queue.LocLenErr, reason.LocalLength},
		{"fetch-and-add with too much room", func(a, b *node) wqe {
			return wqe{op: queue.FetchAdd, list: []memory.SGE{a.sge(0, 9)}, atomic: b.word(0)}
		}, queue.LocLenErr, reason.LocalLength},
		{"compare-and-swap without a buffer", func(a, b *node) wqe {
			return wqe{op: queue.CompareSwap, atomic: b.word(0)}
		}, queue.LocLenErr, reason.LocalLength},
		{"compare-and-swap without room", func(a, b *node) wqe {
			return wqe{op: queue.CompareSwap, list: []memory.SGE{a.sge(0, 4)}, atomic: b.word(0)}
		}, queue.LocLenErr, reason.LocalLength},
		{"compare-and-swap with too much room", func(a, b *node) wqe {
			return wqe{op: queue.CompareSwap, list: []memory.SGE{a.sge(0, 8), a.sge(8, 8)}, atomic: b.word(0)}
		}, queue.LocLenErr, reason.LocalLength},
		{"unknown operation", func(a, b *node) wqe { return wqe{op: 77} }, queue.LocQPOpErr, reason.LocalOpcode},
		{"bind of an unknown window", func(a, b *node) wqe {
			return wqe{op: queue.BindMW, mw: queue.MW{MWRKey: 1 << 8, RKey: 1 << 8, MRLKey: a.mr.Key, Length: 8}}
		}, queue.MWBindErr, reason.BindRefused},
		{"invalidation of a region", func(a, b *node) wqe { return wqe{op: queue.LocalInv, imm: a.mr.Key} },
			queue.MWBindErr, reason.InvalidateRefused},
	} {
		t.Run(r.name, func(t *testing.T) {
			w := newPair(t, func(_ int, p *machine.Port) { p.SQSigAll = false })
			a, b := w.n[0], w.n[1]
			for range 2 {
				a.post(wqe{op: queue.Write, flags: queue.Signaled, list: []memory.SGE{good(a)}, remote: b.target(0)})
			}
			a.post(r.wqe(a, b))
			a.post(wqe{op: queue.Write, list: []memory.SGE{good(a)}, remote: b.target(0)})
			a.postRecv(50, a.sge(0, 1))
			w.take(0, 100)
			if len(a.send.list) != 0 {
				t.Fatalf("completed before the peer answered: %+v", a.send.list)
			}
			w.settle()
			w.wantStatuses(&a.send, queue.Success, queue.Success, r.status, queue.WRFlushErr)
			w.wantStatuses(&a.recv, queue.WRFlushErr)
			if c := a.send.list[2]; c.Reason != r.reason || c.WRID != 2 {
				t.Errorf("error completion %+v, want reason %v", c, r.reason)
			}
			if c := a.send.list[3]; c.Reason != reason.Flushed || c.Expected != uint64(r.reason) || c.Found != uint64(r.status) {
				t.Errorf("flushed completion %+v", c)
			}
			if a.port.Attr.State != qp.Err || a.count(r.reason) != 1 {
				t.Errorf("state %v, refusals %v", a.port.Attr.State, a.refused)
			}
		})
	}
}

func TestRequesterBindAndInvalidateWorkInOrder(t *testing.T) {
	w := newPair(t, nil)
	a, b := w.n[0], w.n[1]
	key, err := a.port.Memory.AllocWindow(7, memory.MW2)
	if err != nil {
		t.Fatal(err)
	}
	a.post(wqe{op: queue.BindMW, mw: queue.MW{
		Addr: a.mr.Base + 64, Length: 64, MRLKey: a.mr.Key, MWRKey: key, RKey: key ^ 1, Access: uint32(qp.RemoteWrite),
	}})
	w.settle()
	w.wantStatuses(&a.send, queue.Success)
	to := queue.RDMA{Addr: a.mr.Base + 64, RKey: key ^ 1}
	b.post(wqe{op: queue.Write, flags: queue.Inline, inline: []byte("through the window"), remote: to})
	w.settle()
	w.wantStatuses(&b.send, queue.Success)
	if got := string(a.mem[64:82]); got != "through the window" {
		t.Errorf("found %q", got)
	}
	a.post(wqe{op: queue.LocalInv, imm: key ^ 1})
	w.settle()
	w.wantStatuses(&a.send, queue.Success, queue.Success)
	if a.send.list[0].Op != queue.WCBindMW || a.send.list[1].Op != queue.WCLocalInv {
		t.Errorf("completions %+v", a.send.list)
	}
	b.post(wqe{op: queue.Write, flags: queue.Inline, inline: []byte("x"), remote: to})
	w.settle()
	w.wantStatuses(&b.send, queue.Success, queue.RemAccessErr)
}

func TestRequesterLocalOperationWaitsForFence(t *testing.T) {
	w := newPair(t, nil)
	a, b := w.n[0], w.n[1]
	key, _ := a.port.Memory.AllocWindow(7, memory.MW2)
	a.post(wqe{op: queue.Read, list: []memory.SGE{a.sge(0, 8)}, remote: b.target(0)})
	a.post(wqe{op: queue.BindMW, flags: queue.Fence, mw: queue.MW{
		Addr: a.mr.Base, Length: 64, MRLKey: a.mr.Key, MWRKey: key, RKey: key ^ 1,
	}})
	w.take(0, 100)
	if a.port.Memory.Lookup(key^1) != nil {
		t.Fatal("bound before the READ completed")
	}
	w.settle()
	w.wantStatuses(&a.send, queue.Success, queue.Success)
	if a.port.Memory.Lookup(key^1) == nil {
		t.Fatal("not bound")
	}
}
