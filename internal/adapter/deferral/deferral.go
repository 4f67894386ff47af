// Package deferral tells programs which doorbells they may leave out.
package deferral

import "sync/atomic"

// A Place tells a program which doorbells of a queue pair it may leave out. It lies in
// memory that the program reads without a call: a doorbell from C into Go takes longer than
// posting a request. Queue pairs may share one; it is one's at a time. Its layout is that
// of struct deferral in preload/src/preload.h.
//
// A queue pair whose doorbell waits for further ones for gathering is among the lane's ready
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
type Place struct {
	name atomic.Uint64 // of the queue pair, 0 if there is none
	left atomic.Uint32 // doorbells that may still be left out
	_    [52]byte      // a cache line
}

// An Offer is what a queue pair says in its place. The zero Offer says nothing.
type Offer struct {
	place *Place // nil if the program cannot see one
	name  uint64
}

// New returns the offer of a queue pair to which nothing is posted yet. The program finds
// the name in the place.
func New(p *Place, name uint64) Offer { return Offer{p, name} }

// Make lets the program leave out n doorbells. The caller has the lane, and the queue pair is
// ready.
func (o *Offer) Make(n int) {
	if o.place != nil {
		o.place.left.Store(uint32(n))
		o.place.name.Store(o.name)
	}
}

// Stands reports whether the program may leave out doorbells. If it rings nevertheless, it has
// left out as many as it may.
func (o *Offer) Stands() bool { return o.place != nil && o.place.name.Load() == o.name }

// End makes the program ring again, before the queue pair looks at its ring.
func (o *Offer) End() {
	if o.Stands() {
		o.place.name.CompareAndSwap(o.name, 0)
	}
}
