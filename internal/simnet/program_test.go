package simnet_test

import (
	"encoding/binary"

	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/wire/ib"
)

// length draws a message's length: 0, small, around multiples of the path MTU, or long.
func (w *world) length(limit int) int {
	n := 0
	switch r := w.rng.IntN(100); {
	case r < 8:
	case r < 35:
		n = 1 + w.rng.IntN(64)
	case r < 60:
		n = max(0, (256<<w.rng.IntN(5))*(1+w.rng.IntN(3))+w.rng.IntN(3)-1)
	case r < 85:
		n = w.rng.IntN(4096)
	case r < 96:
		n = w.rng.IntN(16 << 10)
	default:
		n = w.rng.IntN(64<<10 + 1)
	}
	return min(n, limit)
}

// make draws the next request, or returns nil if it cannot be posted now.
func (e *end) make() *wr {
	w := e.w
	if e.kind == qp.UD {
		return e.makeDatagram()
	}
	if e.failed || e.peer.dead {
		return e.makeSend()
	}
	if e.trouble != noTrouble && e.budget <= e.troubleAt+1 && !e.caused {
		return e.makeTrouble()
	}
	if e.kind == qp.UC {
		if w.chance(2) {
			r := e.makeSend()
			return e.spoilLocal(r)
		}
		if w.chance(50) {
			return e.makeSend()
		}
		return e.makeWrite()
	}
	if r := e.makeWindow(); r != nil {
		return r
	}
	switch k := w.rng.IntN(100); {
	case k < 35:
		return e.makeSend()
	case k < 65:
		return e.makeWrite()
	case k < 75:
		return e.makeRead()
	case k < 80:
		return e.makeReadBack()
	case k < 85:
		return e.makeForward()
	case k < 88:
		return e.makeFlush()
	case k < 91:
		return e.makeAtomicWrite()
	}
	return e.makeAtomic()
}

// payload gives a request its data, inline or gathered.
func (e *end) payload(r *wr, n int) {
	if n <= e.inline && e.w.chance(40) {
		r.Inline = gather(e.w.anywhere(e.h.source, n, 3))
		if r.Inline == nil {
			r.Inline = []byte{}
		}
		r.data = r.Inline
		return
	}
	list := e.w.anywhere(e.h.source, n, e.maxSGE)
	r.SGEs, r.data = entries(list), gather(list)
}

func (e *end) makeSend() *wr {
	r := &wr{consumes: true}
	r.Op = queue.Send
	e.payload(r, e.w.length(e.peer.slots.size))
	if e.w.chance(40) {
		r.Op, r.ImmInv = queue.SendImm, e.w.rng.Uint32()
	}
	if e.w.chance(30) {
		r.Flags |= queue.Solicited
	}
	return r
}

// makeWrite writes to a random part of the peer's target and overwrites earlier data, so that
// the order matters.
func (e *end) makeWrite() *wr {
	t := e.peer.target
	r := &wr{to: t}
	r.Op = queue.Write
	n := e.w.length(len(t.mem))
	e.payload(r, n)
	r.off = e.w.rng.IntN(len(t.mem) - n + 1)
	r.Addr, r.RKey = t.base+uint64(r.off), t.region.Key
	if n == 0 && e.w.chance(50) {
		r.RKey, r.Addr = e.w.rng.Uint32(), e.w.rng.Uint64() // C9-88: ignored
	}
	if e.w.chance(25) {
		r.Op, r.ImmInv, r.consumes = queue.WriteImm, e.w.rng.Uint32(), true
		if e.w.chance(30) {
			r.Flags |= queue.Solicited
		}
	}
	if e.peer.window != nil && n > 0 && e.kind == qp.RC && e.w.chance(60) {
		e.throughWindow(r, n)
	}
	return r
}

// room finds n bytes among the results that no pending request uses.
func (e *end) room(n int) (int, bool) {
	for range 8 {
		off := 8 * e.w.rng.IntN((len(e.results.mem)-n)/8)
		free := true
		for _, p := range e.pending {
			for _, s := range p.result {
				free = free && (off >= s.off+s.n || off+n <= s.off)
			}
			for _, g := range p.SGEs {
				at := int(g.Addr - e.results.base)
				if g.LKey == e.results.region.Key {
					free = free && (off >= at+int(g.Length) || off+n <= at)
				}
			}
		}
		if free {
			return off, true
		}
	}
	return 0, false
}

func (e *end) makeRead() *wr {
	src := e.peer.h.readable
	n := e.w.length(64 << 10)
	off, ok := e.room(n)
	if !ok {
		return e.makeWrite()
	}
	r := &wr{}
	r.Op = queue.Read
	r.result = e.w.cut(e.results, off, n, e.maxSGE)
	at := e.w.rng.IntN(len(src.mem) - n + 1)
	r.data = src.mem[at : at+n]
	r.SGEs, r.Addr, r.RKey = entries(r.result), src.base+uint64(at), src.region.Key
	if n == 0 && e.w.chance(50) {
		r.RKey = e.w.rng.Uint32()
	}
	return r
}

// makeReadBack READs what this end wrote. The request after it is fenced, so that nothing
// changes the memory before it was read.
func (e *end) makeReadBack() *wr {
	t := e.peer.target
	n := 1 + e.w.length(16<<10)
	off, ok := e.room(n)
	if !ok {
		return e.makeWrite()
	}
	r := &wr{from: t, off: e.w.rng.IntN(len(t.mem) - n + 1)}
	r.Op = queue.Read
	r.result = e.w.cut(e.results, off, n, e.maxSGE)
	r.data = make([]byte, n)
	r.SGEs, r.Addr, r.RKey = entries(r.result), t.base+uint64(r.off), t.region.Key
	return r
}

// makeForward sends the data that the READ before it returns. The fence makes it wait for that
// (IBTA 10.8.3.3).
func (e *end) makeForward() *wr {
	for i := len(e.pending) - 1; i >= 0; i-- {
		p := e.pending[i]
		if p.Op != queue.Read || p.from != nil || len(p.data) == 0 || len(p.data) > e.peer.slots.size || p.RKey == 0 {
			continue
		}
		r := &wr{consumes: true, data: p.data}
		r.Op, r.Flags, r.SGEs = queue.Send, queue.Fence, p.SGEs
		return r
	}
	return e.makeRead()
}

func (e *end) makeAtomic() *wr {
	off, ok := e.room(8)
	if !ok {
		return e.makeWrite()
	}
	r := &wr{result: e.w.cut(e.results, off, 8, e.maxSGE)}
	r.SGEs = entries(r.result)
	if e.w.chance(40) {
		r.sharing = true
		s := e.peer.h.shared
		r.Op, r.CompareAdd, r.Addr, r.RKey = queue.FetchAdd, 1, s.base, s.region.Key
		return r
	}
	r.to, r.word = e.peer.words, e.w.rng.IntN(4)
	r.Addr, r.RKey = r.to.base+uint64(8*r.word), r.to.region.Key
	if e.w.chance(50) {
		r.Op, r.CompareAdd = queue.FetchAdd, e.w.rng.Uint64()
		return r
	}
	r.Op, r.Swap, r.CompareAdd = queue.CompareSwap, e.w.rng.Uint64(), e.w.rng.Uint64()
	if e.w.chance(60) {
		r.CompareAdd = e.foresee(r.word)
	}
	return r
}

// makeFlush flushes a part of the peer's target, or all of it.
func (e *end) makeFlush() *wr {
	t := e.peer.target
	r := &wr{}
	r.Op, r.Length = queue.Flush, uint32(e.w.length(len(t.mem)))
	r.Flush = queue.FlushTarget{Addr: t.base, RKey: t.region.Key, Placement: uint8(ib.GlobalVisibility)}
	if e.w.chance(30) {
		r.Flush.Selectivity, r.Flush.Addr = uint8(ib.FlushRegion), e.w.rng.Uint64() // ignored
	}
	return r
}

// makeAtomicWrite writes one of the words that atomics change.
func (e *end) makeAtomicWrite() *wr {
	r := &wr{to: e.peer.words, word: e.w.rng.IntN(4)}
	r.Op, r.Swap = queue.AtomicWrite, e.w.rng.Uint64()
	r.Inline = binary.NativeEndian.AppendUint64(nil, r.Swap)
	r.Addr, r.RKey = r.to.base+uint64(8*r.word), r.to.region.Key
	return r
}

// foresee returns the value of a word of the peer after all posted requests.
func (e *end) foresee(i int) uint64 {
	v := e.peer.counts[i]
	for _, p := range e.pending {
		if p.to == e.peer.words && p.word == i {
			v = p.operate(v)
		}
	}
	return v
}
