package simnet_test

import (
	"bytes"
	"encoding/binary"
	"slices"

	"softrdma/internal/qp"
	"softrdma/internal/queue"
)

// sent handles a completion of the send queue. They must come in order, once for each
// signalled or failed request.
func (e *end) sent(c *queue.CQE) {
	w := e.w
	if int(c.Status) < len(w.stats.completions) {
		w.stats.completions[c.Status]++
	}
	for {
		if len(e.pending) == 0 {
			w.fail("%s: completion of nothing: %+v", e.name, *c)
			return
		}
		r := e.pending[0]
		e.pending = e.pending[1:]
		if r.ID == c.WRID {
			e.verdict(r, c)
			return
		}
		if r.signaled || e.failed || e.stopped {
			w.fail("%s: request %d (%v) completed before request %d", e.name, c.WRID, c.Status, r.seq)
			return
		}
		e.succeed(r)
	}
}

// verdict checks the completion of request r.
func (e *end) verdict(r *wr, c *queue.CQE) {
	w := e.w
	switch {
	case c.Status == queue.Success:
		if e.failed || e.stopped {
			w.fail("%s: request %d succeeded behind a failed one", e.name, r.seq)
		} else if r.expect != nil && !slices.Contains(r.expect, queue.Success) {
			w.fail("%s: request %d succeeded, expected %v", e.name, r.seq, r.expect)
		}
		if !r.signaled {
			w.fail("%s: request %d completed unasked", e.name, r.seq)
		}
		if c.Op != operation(r.Op) || c.QPN != e.q.QPN {
			w.fail("%s: request %d completed as %+v", e.name, r.seq, *c)
		}
		e.succeed(r)
		return
	case e.failed:
		if c.Status != queue.WRFlushErr {
			w.fail("%s: request %d behind a failed one completed with status %d", e.name, r.seq, c.Status)
		}
	case e.stopped:
		if c.Status != queue.WRFlushErr {
			w.fail("%s: request %d posted in SQE completed with status %d", e.name, r.seq, c.Status)
		}
	case !e.may(r, c):
		w.fail("%s: request %d (operation %d) failed with status %d: %v", e.name, r.seq, r.Op, c.Status, detail(c))
	case e.kind != qp.RC && c.Status != queue.WRFlushErr:
		e.stopped = true
	default:
		e.failed = true
		e.budget = min(e.budget, 3) // what is posted now is flushed
	}
	e.unsure(r)
}

// may reports whether the first failure of an end is justified.
func (e *end) may(r *wr, c *queue.CQE) bool {
	switch {
	case slices.Contains(r.expect, c.Status):
		return true
	case c.Status == queue.WRFlushErr:
		return e.broken()
	case c.Status == queue.RetryExcErr:
		return e.kind == qp.RC && (e.w.profile.harsh || e.gone())
	case c.Status == queue.RNRRetryExcErr:
		return e.kind == qp.RC && e.rnrLimited
	}
	return false
}

// succeed applies the effects of a request to the model.
func (e *end) succeed(r *wr) {
	w := e.w
	w.stats.ops[r.Op]++
	w.stats.bytes += len(r.data)
	switch r.Op {
	case queue.Write, queue.WriteImm:
		if e.kind == qp.RC {
			r.to.write(r.off, r.data)
		} else {
			r.to.maybe = append(r.to.maybe, patch{r.off, r.data}) // sent does not mean received
		}
	case queue.Read:
		want := r.data
		if r.from != nil {
			want = r.from.want[r.off : r.off+len(r.data)]
		}
		e.result(r, want)
	case queue.CompareSwap, queue.FetchAdd:
		e.counted(r)
	case queue.AtomicWrite:
		e.stored(r)
	}
	if r.done != nil {
		r.done(true)
	}
}

// result checks the bytes that a request returned.
func (e *end) result(r *wr, want []byte) {
	if got := found(r.result, len(want)); !bytes.Equal(got, want) {
		e.w.fail("%s: request %d (operation %d) brought %s", e.name, r.seq, r.Op, differ(got, want))
	}
	scatter(r.result, want)
}

// counted checks the original value that an atomic returned and applies it to the model.
func (e *end) counted(r *wr) {
	var old uint64
	if r.sharing {
		h := e.peer.h
		old = binary.NativeEndian.Uint64(found(r.result, 8))
		if h.olds[old] {
			e.w.fail("%s: two FETCH_ADDs on host %d found %d", e.name, h.index, old)
		}
		h.olds[old] = true
		h.added++
	} else {
		p := e.peer
		old = p.counts[r.word]
		e.stored(r)
	}
	e.result(r, binary.NativeEndian.AppendUint64(nil, old))
}

// stored applies an atomic or an ATOMIC WRITE on a word to the model.
func (e *end) stored(r *wr) {
	p := e.peer
	p.counts[r.word] = r.operate(p.counts[r.word])
	p.alts[r.word] = []uint64{p.counts[r.word]}
}

// operate returns the value of a word after an atomic or an ATOMIC WRITE.
func (r *wr) operate(v uint64) uint64 {
	switch {
	case r.Op == queue.FetchAdd:
		return v + r.CompareAdd
	case r.Op == queue.AtomicWrite, v == r.CompareAdd:
		return r.Swap
	}
	return v
}

// unsure records the possible effects of a request that did not succeed.
func (e *end) unsure(r *wr) {
	e.flushedSends++
	if r.consumes {
		e.peer.unsent++
	}
	switch r.Op {
	case queue.Write, queue.WriteImm:
		if r.to != nil {
			r.to.maybe = append(r.to.maybe, patch{r.off, r.data})
		}
	case queue.Read:
		loosen(r.result)
	case queue.CompareSwap, queue.FetchAdd, queue.AtomicWrite:
		loosen(r.result)
		if r.sharing {
			e.peer.h.maybe++
		} else if r.to != nil {
			a := e.peer.alts[r.word]
			e.peer.alts[r.word] = append(a, r.operate(a[len(a)-1]))
		}
	}
	if r.done != nil {
		r.done(false)
	}
}

func operation(o queue.Op) queue.WCOp {
	switch o {
	case queue.Write, queue.WriteImm:
		return queue.WCWrite
	case queue.Read:
		return queue.WCRead
	case queue.CompareSwap:
		return queue.WCCompareSwap
	case queue.FetchAdd:
		return queue.WCFetchAdd
	case queue.Flush:
		return queue.WCFlush
	case queue.AtomicWrite:
		return queue.WCAtomicWrite
	case queue.BindMW:
		return queue.WCBindMW
	case queue.LocalInv:
		return queue.WCLocalInv
	}
	return queue.WCSend
}
