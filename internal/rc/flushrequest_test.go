package rc

import (
	"bytes"
	"testing"

	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/psn"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// flush names memory at offset off for a FLUSH to global visibility.
func (n *node) flush(off int, s ib.Selectivity) queue.FlushTarget {
	t := n.target(off)
	return queue.FlushTarget{Addr: t.Addr, RKey: t.RKey, Placement: uint8(ib.GlobalVisibility), Selectivity: uint8(s)}
}

func TestFlushIsAnsweredAfterTheWriteBeforeIt(t *testing.T) {
	for name, lose := range map[string]func(w *pair){
		"nothing lost":  func(*pair) {},
		"write lost":    func(w *pair) { w.fate = drop(1, 0) },
		"flush lost":    func(w *pair) { w.fate = drop(1, 1) },
		"response lost": func(w *pair) { w.fate = drop(0, 0) },
	} {
		for _, create := range []func() *pair{func() *pair { return newPair(t, nil) }, func() *pair { return newSelective(t, nil) }} {
			w := create()
			a, b := w.n[0], w.n[1]
			lose(w)
			fill(a.mem, 3)
			a.post(wqe{op: queue.Write, list: []memory.SGE{a.sge(0, 32)}, remote: b.target(16)})
			a.post(wqe{op: queue.Flush, flags: queue.Signaled, flush: b.flush(16, ib.FlushRange), length: 32})
			w.settle()
			w.wantStatuses(&a.send, queue.Success, queue.Success)
			if c := a.send.list[1]; c.Op != queue.WCFlush {
				t.Errorf("%s: completed %v", name, c.Op)
			}
			if !bytes.Equal(b.mem[16:48], a.mem[:32]) {
				t.Errorf("%s: the WRITE is missing", name)
			}
			p := w.sent[1][1]
			want := ib.RETH{Addr: b.mr.Base + 16, RKey: b.mr.Key, Length: 32}
			if p.Opcode != ib.RCFlush || p.FETH != (ib.FETH{Placement: ib.GlobalVisibility}) || p.RETH != want {
				t.Errorf("%s: sent %v", name, &p)
			}
			if p := w.sent[0][len(w.sent[0])-1]; p.Opcode != ib.RCReadResponseOnly || len(p.Payload) != 0 || p.PSN != psn.PSN(testPSN0).Next() {
				t.Errorf("%s: answered with %v", name, &p)
			}
		}
	}
}

// Address and length do not matter to a FLUSH of a whole region (IBTA A19).
func TestFlushOfTheRegionIgnoresTheRange(t *testing.T) {
	w := newPair(t, nil)
	a, b := w.n[0], w.n[1]
	f := b.flush(0, ib.FlushRegion)
	f.Addr = 1 << 60
	a.post(wqe{op: queue.Flush, flush: f, length: 77})
	w.settle()
	w.wantStatuses(&a.send, queue.Success)
}

// A duplicate is answered from what the responder remembers: one more FLUSH in the history, and
// the answer to the first one is gone.
func TestFlushTakesAPlaceAmongReadsAndAtomics(t *testing.T) {
	w := newPair(t, func(_ int, p *machine.Port) { p.Attr.MaxDestRdAtomic = 2 })
	b := w.n[1]
	flush := func(i int) {
		k := requestPacket(ib.RCFlush, i, 0)
		k.FETH.Placement, k.RETH = ib.GlobalVisibility, ib.RETH{Addr: b.mr.Base, RKey: b.mr.Key, Length: 8}
		w.inject(1, k)
	}
	for i := range 3 {
		flush(i)
		if got := w.answers(); len(got) != 1 || got[0].Opcode != ib.RCReadResponseOnly || got[0].AETH.MSN != psn.PSN(i+1) {
			t.Fatalf("FLUSH %d: answers %+v", i, got)
		}
	}
	flush(1)
	if got := w.answers(); len(got) != 1 || got[0].Opcode != ib.RCReadResponseOnly || got[0].AETH.MSN != 2 {
		t.Errorf("duplicate: answers %+v", got)
	}
	flush(0)
	if got := w.answers(); len(got) != 0 || b.count(reason.SequenceDuplicateUnknown) != 1 {
		t.Errorf("duplicate of a forgotten FLUSH: answers %+v, refused %v", got, b.refused)
	}
}

func TestFlushRequestsAreLimitedByMaxRdAtomic(t *testing.T) {
	w := newPair(t, func(_ int, p *machine.Port) { p.Attr.MaxRdAtomic = 2 })
	a, b := w.n[0], w.n[1]
	for range 5 {
		a.post(wqe{op: queue.Flush, flush: b.flush(0, ib.FlushRange), length: 8})
	}
	w.take(0, 100)
	if got := len(w.sent[1]); got != 2 {
		t.Errorf("%d in flight, expected 2", got)
	}
	w.settle()
	w.wantStatuses(&a.send, 0, 0, 0, 0, 0)
}

func TestFlushRefusals(t *testing.T) {
	const (
		inv = ib.NAKInvalidRequest
		acc = ib.NAKRemoteAccess
	)
	for name, c := range map[string]struct {
		change func(b *node, k *ib.Packet)
		nak    ib.Syndrome
		want   reason.Reason
	}{
		"reserved placement":                  {func(_ *node, k *ib.Packet) { k.FETH.Placement = 4 }, inv, reason.FlushType},
		"reserved selectivity":                {func(_ *node, k *ib.Packet) { k.FETH.Selectivity = 2 }, inv, reason.FlushType},
		"queue pair without FLUSH_PERSISTENT": {func(_ *node, k *ib.Packet) { k.FETH.Placement = ib.Persistence }, inv, reason.QPAccess},
		"region without FLUSH_PERSISTENT": {func(b *node, k *ib.Packet) {
			b.port.Attr.Access |= qp.FlushPersistent
			k.FETH.Placement = ib.Persistence
		}, acc, reason.KeyAccess},
		"range past the end":        {func(_ *node, k *ib.Packet) { k.RETH.Length = testMem + 1 }, acc, reason.KeyBounds},
		"range of 2^31 bytes":       {func(_ *node, k *ib.Packet) { k.RETH.Length = 1<<31 + 1 }, inv, reason.LengthLimit},
		"unknown key, no bytes":     {func(_ *node, k *ib.Packet) { k.RETH.RKey, k.RETH.Length = 5, 0 }, acc, reason.KeyUnknown},
		"unknown key, whole region": {func(_ *node, k *ib.Packet) { k.RETH.RKey, k.FETH.Selectivity = 5, ib.FlushRegion }, acc, reason.KeyUnknown},
		"whole region without FLUSH_GLOBAL": {func(b *node, k *ib.Packet) {
			mr, _ := b.port.Memory.Register(7, make([]byte, 64), 0, qp.RemoteRead)
			k.RETH.RKey, k.FETH.Selectivity = mr.Key, ib.FlushRegion
		}, acc, reason.KeyAccess},
	} {
		w := newPair(t, nil)
		b := w.n[1]
		k := requestPacket(ib.RCFlush, 0, 0)
		k.FETH.Placement, k.RETH = ib.GlobalVisibility, ib.RETH{Addr: b.mr.Base, RKey: b.mr.Key, Length: 8}
		c.change(b, &k)
		w.inject(1, k)
		if got := w.answers(); len(got) != 1 || got[0].AETH.Syndrome != c.nak || b.count(c.want) != 1 {
			t.Errorf("%s: answers %+v, refused %v", name, got, b.refused)
		}
	}
}

func TestFlushOfAReservedTypeIsNotSent(t *testing.T) {
	w := newPair(t, nil)
	a, b := w.n[0], w.n[1]
	f := b.flush(0, ib.FlushRange)
	f.Placement = 8
	a.post(wqe{op: queue.Flush, flush: f, length: 8})
	w.settle()
	w.wantStatuses(&a.send, queue.LocQPOpErr)
	if a.count(reason.FlushType) != 1 || len(w.sent[1]) != 0 {
		t.Errorf("refused %v, sent %d", a.refused, len(w.sent[1]))
	}
}
