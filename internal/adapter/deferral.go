package adapter

import "sync/atomic"

// A Deferral tells a program which doorbells of a queue pair it may leave out. It lies in
// memory that the program reads without a call: a doorbell from C into Go takes longer than
// posting a request. Queue pairs may share one; it is one's at a time. Its layout is that
// of struct deferral in preload/src/preload.h.
//
// A queue pair whose doorbell waits for further ones (see gathers) is among the lane's ready
// tasks, and looks at its ring when its turn comes. Until then a doorbell says nothing new.
// No request is lost:
//
//   - The program writes a request into the ring and then reads the name. The queue pair's
//     turn begins by removing the name, and then reads the ring. Both order their write
//     before their read (sequentially consistent), so the queue pair finds the request or
//     the program finds the name gone, and rings.
//   - The queue pair has its turn with the next poll, or soon by the worker: Driver.Defer.
//   - The name goes with each change of state, too: a queue pair that was destroyed leaves
//     none behind for the next one with its name.
type Deferral struct {
	name atomic.Uint64 // of the queue pair, 0 for none
	left atomic.Uint32 // doorbells that may still be left out
	_    [52]byte      // a cache line
}

// SetDeferral gives the queue pair, before anything is posted to it, a place in which the
// program finds its name.
func (q *QP) SetDeferral(d *Deferral, name uint64) { q.deferral, q.deferralName = d, name }

// offerDeferral lets the program leave out n doorbells. The caller has the lane, and the
// queue pair is ready.
func (q *QP) offerDeferral(n int) {
	if q.deferral != nil {
		q.deferral.left.Store(uint32(n))
		q.deferral.name.Store(q.deferralName)
	}
}

// deferring reports whether the program may leave out doorbells. If it rings nevertheless,
// it has left out as many as it may.
func (q *QP) deferring() bool {
	return q.deferral != nil && q.deferral.name.Load() == q.deferralName
}

// endDeferral makes the program ring again, before the queue pair looks at its ring.
func (q *QP) endDeferral() {
	if q.deferring() {
		q.deferral.name.CompareAndSwap(q.deferralName, 0)
	}
}
