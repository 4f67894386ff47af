package rc

import (
	"softrdma/internal/memory"
	"softrdma/internal/rc/seq"
	"softrdma/internal/reason"
)

// placeAhead writes an answer to request i, whatever was answered before. Answers to
// later requests may be in memory already. If they share memory with this one, the data
// of the request that was posted last stays, as if the answers had come in order.
func (r *completer) placeAhead(i, off uint32, data []byte) reason.Detail {
	list := r.p.SQ.SGEs(i)
	if !r.overlaps(i, list) {
		r.scatter.Restart()
		d := r.scatter.Scatter(r.p.Memory, r.p.PD, list, uint64(off), data)
		r.scatter.Restart()
		return d
	}
	for k := 0; k < len(list) && len(data) > 0; k++ {
		s := list[k]
		if off >= s.Length {
			off -= s.Length
			continue
		}
		n := min(s.Length-off, uint32(len(data)))
		if d := r.placeAround(r.p.SQ.Next(i), memory.SGE{Addr: s.Addr + uint64(off), Length: n, LKey: s.LKey}, data[:n]); d.Reason != reason.None {
			return d
		}
		data, off = data[n:], 0
	}
	return reason.Detail{}
}

// overlaps reports whether the memory of a list belongs to a request behind i as well
// that was answered, if only in part.
func (r *completer) overlaps(i uint32, list []memory.SGE) bool {
	for k := r.p.SQ.Next(i); r.hasAnswers(k); k = r.p.SQ.Next(k) {
		for _, y := range r.p.SQ.SGEs(k) {
			for _, x := range list {
				if r.requests[k].responds() && x.Addr < y.Addr+uint64(y.Length) && y.Addr < x.Addr+uint64(x.Length) {
					return true
				}
			}
		}
	}
	return false
}

// hasAnswers reports whether answers to request k or to those behind it have come.
func (r *completer) hasAnswers(k uint32) bool {
	return k != r.sq.End && seq.Before(r.requests[k].first, r.recovery.loss.board.Answered)
}

// placeAround writes data, but not over what answers to request k and those behind it
// have written.
func (r *completer) placeAround(k uint32, at memory.SGE, data []byte) reason.Detail {
	end := at.Addr + uint64(at.Length)
	for ; at.Length > 0 && r.hasAnswers(k); k = r.p.SQ.Next(k) {
		if !r.requests[k].responds() {
			continue
		}
		first, last, found := r.written(k, at.Addr, end)
		if !found {
			continue
		}
		left, right := at, at
		left.Length = uint32(first - at.Addr)
		right.Addr, right.Length = last, uint32(end-last)
		if d := r.placeAround(k, left, data[:left.Length]); d.Reason != reason.None {
			return d
		}
		return r.placeAround(k, right, data[len(data)-int(right.Length):])
	}
	if at.Length == 0 {
		return reason.Detail{}
	}
	r.scatter.Restart()
	d := r.scatter.Scatter(r.p.Memory, r.p.PD, []memory.SGE{at}, 0, data)
	r.scatter.Restart()
	return d
}

// written finds memory between two addresses that one packet of an answer to request k
// was written to.
func (r *completer) written(k uint32, first, end uint64) (from, to uint64, found bool) {
	w := &r.requests[k]
	done := uint64(0) // bytes of the message in the entries before
	for _, s := range r.p.SQ.SGEs(k) {
		n := min(uint64(s.Length), uint64(w.length)-done)
		lo, hi := max(first, s.Addr), min(end, s.Addr+n)
		for lo < hi {
			packet := uint32((done + lo - s.Addr) >> r.mtuShift)
			behind := min(hi, s.Addr+(uint64(packet)+1)<<r.mtuShift-done)
			if r.recovery.loss.board.Has(w.first + packet) {
				return lo, behind, true
			}
			lo = behind
		}
		done += n
	}
	return 0, 0, false
}
