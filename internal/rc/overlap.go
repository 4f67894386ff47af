package rc

import (
	"softrdma/internal/memory"
	"softrdma/internal/reason"
)

// placeAhead puts an answer to request i to its place, whatever was answered
// before. Answers to later requests may be there already; where those share
// memory with this one, the request that was posted last has the last word, as
// if answers had come in order.
func (r *requester) placeAhead(i, off uint32, data []byte) reason.Detail {
	list := r.p.SQ.SGEs(i)
	if !r.shared(i, list) {
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

// shared tells whether a request behind i that was answered, if only in part,
// has memory of a list.
func (r *requester) shared(i uint32, list []memory.SGE) bool {
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

// hasAnswers tells whether answers to request k or to those behind it have come.
func (r *requester) hasAnswers(k uint32) bool {
	return k != r.end && before(r.requests[k].first, r.board.answered)
}

// placeAround puts data to its place but for what answers to request k and
// those behind it have put there.
func (r *requester) placeAround(k uint32, at memory.SGE, data []byte) reason.Detail {
	end := at.Addr + uint64(at.Length)
	for ; at.Length > 0 && r.hasAnswers(k); k = r.p.SQ.Next(k) {
		if !r.requests[k].responds() {
			continue
		}
		first, last, found := r.taken(k, at.Addr, end)
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

// taken finds memory between two addresses that an answer to request k was put
// to: what is in one packet of it.
func (r *requester) taken(k uint32, first, end uint64) (from, to uint64, found bool) {
	w := &r.requests[k]
	done := uint64(0) // bytes of the message in the entries before
	for _, s := range r.p.SQ.SGEs(k) {
		n := min(uint64(s.Length), uint64(w.length)-done)
		lo, hi := max(first, s.Addr), min(end, s.Addr+n)
		for lo < hi {
			packet := uint32((done + lo - s.Addr) >> r.mtuShift)
			behind := min(hi, s.Addr+(uint64(packet)+1)<<r.mtuShift-done)
			if r.board.has(w.first + packet) {
				return lo, behind, true
			}
			lo = behind
		}
		done += n
	}
	return 0, 0, false
}
