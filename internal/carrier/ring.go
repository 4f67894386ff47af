package carrier

import "softrdma/verbs"

// A ring has the slots of frames that are being sent, in order. If few frames have a completion, it says
// that all frames before are complete as well.
type ring struct {
	slots    []uint16
	first, n int
	every    int    // one of so many has a completion
	silent   int    // the newest without a completion
	total    uint64 // that were ever added
}

// newRing returns a ring for at most n frames. One of so many, at most n, has a completion.
func newRing(n, every int) ring { return ring{slots: make([]uint16, n), every: max(every, 1)} }

// add adds the slot of a frame that is about to be posted. It returns the frame's flags.
func (r *ring) add(i int) verbs.SendFlags {
	r.slots[(r.first+r.n)%len(r.slots)] = uint16(i)
	r.n++
	r.total++
	if r.silent++; r.silent < r.every {
		return 0
	}
	r.silent = 0
	return verbs.Signaled
}

// through returns how many frames there are up to the one in a slot, 0 if it is not there.
func (r *ring) through(i int) int {
	for k := range r.n {
		if r.slots[(r.first+k)%len(r.slots)] == uint16(i) {
			return k + 1
		}
	}
	return 0
}

// take removes the oldest frame, and returns its slot.
func (r *ring) take() int {
	i := r.slots[r.first]
	r.first = (r.first + 1) % len(r.slots)
	r.n--
	return int(i)
}
