package rdmanet

import (
	"time"

	"softrdma/internal/flight"
	"softrdma/rdmanet/internal/rsocket"
	"softrdma/verbs"
)

// The buffers of a connection follow a long path, unless the program chose their sizes. What
// arrives and what leaves within a round trip says how much a buffer must hold so that the stream
// does not stop. Short paths keep their buffers: a connection learns with its first message how
// long its path is.
//
// The receive buffer is granted to the peer in two pieces. One that was read is granted again
// with another length, in other memory, which the protocol allows. The send buffer is replaced by
// another one, and the old one is freed when the peer's device has acknowledged what it holds.

const (
	maxPiece = 128 << 20 // of the receive buffer
	maxRing  = 256 << 20 // send buffer
	maxGrown = 1 << 30   // of all connections of a device

	messagesInRing = 32 // at least, of the longest messages
)

// timedFlag in a WRID is set for the control message that is timed, or the READ after it, and timedData for the data
// message that is timed, above the span's id.
const (
	timedFlag = 1 << 8
	timedData = 1 << 40
)

// growth is what the sizes of the buffers depend on.
type growth struct {
	fixedRead, fixedWrite bool // the sizes do not change
	arriving, leaving     flight.Tuner
	left                  uint64        // bytes that have left the send buffers
	older                 *ring         // was used before out, and is not yet acknowledged
	quiet                 uint64        // bytes that were sent when the stream was last seen busy
	since                 time.Duration // when that was
}

// A ring is memory to send from.
type ring struct {
	*rsocket.SendBuffer
	*area
}

// longest is the length of the longest message from the ring. There are only dataSlots messages in
// flight.
func (r *ring) longest() int { return max(maxTransfer, r.Size()/messagesInRing) }

var processStart = time.Now()

func (*growth) clock() time.Duration { return time.Since(processStart) }

// timesGrant reports whether the control message that grants a piece is to be timed, which begins
// now. On iWARP its completion says only that this host's TCP has it, so a READ of nothing behind
// it is timed, if the peer answers such READs (proof.go).
func (e *endpoint) timesGrant() bool {
	if e.fixedRead || e.arriving.Timing() || e.sends && (!e.proves || e.controls+2 > controlSlots) {
		return false
	}
	e.arriving.Begin(e.clock(), e.rx.Total())
	return true
}

// timeRead posts that READ.
func (e *endpoint) timeRead() {
	e.wr[0] = verbs.SendWR{WRID: workControl | timedFlag, Op: verbs.OpRead, RKey: proofKey}
	if e.err == nil && e.send(1) {
		e.controls++
	}
}

// resizeSpare changes the length of the piece that is granted next to what the path needs. Without
// memory the piece stays as it is.
func (e *endpoint) resizeSpare() {
	p, any := e.rx.Spare()
	if !any {
		return
	}
	half := e.store.half()
	size := half // of the piece, of which the peer may have skipped a part
	if p.Area > 0 {
		size = len(e.store.grown[p.Area-1].bytes)
	}
	fit := size
	if !e.fixedRead && !e.noRead { // a reader may still copy from what CloseRead has discarded
		fit = min(flight.Fit(half, size, 2*e.arriving.Need()), max(maxPiece, half))
	}
	if fit == size {
		e.rx.Replace(rsocket.Piece{Area: p.Area, Off: p.Off, Len: size})
		return
	}
	next := rsocket.Piece{Len: half}
	if fit == half {
		if e.rx.Uses(0, 0) {
			next.Off = half
		}
	} else {
		a := e.grow(fit, verbs.LocalWrite|verbs.RemoteWrite)
		if a == nil {
			e.rx.Replace(rsocket.Piece{Area: p.Area, Off: p.Off, Len: size})
			return
		}
		next = rsocket.Piece{Area: e.store.add(a), Len: fit}
	}
	e.rx.Replace(next)
	if p.Area > 0 {
		e.shrink(e.store.grown[p.Area-1])
	}
}

// grow allocates memory, or returns nil. A connection gets at most half of what a device's
// connections have not taken, so that others find some.
func (e *endpoint) grow(n int, access verbs.Access) *area {
	left := maxGrown - e.busy.grown.Add(int64(n))
	if left >= int64(n) {
		if a, err := newArea(e.pd, n, access); err == nil {
			return &a
		}
	}
	e.busy.grown.Add(-int64(n))
	return nil
}

// shrink frees memory of grow.
func (e *endpoint) shrink(a *area) {
	e.busy.grown.Add(-int64(len(a.bytes)))
	if err := kept(e.store.remove(a)); err != nil {
		e.fail(err)
	}
}

// forget frees the share of a connection that closes.
func (e *endpoint) forget() {
	for _, a := range e.store.grown {
		if a != nil {
			e.busy.grown.Add(-int64(len(a.bytes)))
		}
	}
}

// ringOf returns the ring of a span.
func (e *endpoint) ringOf(id uint32) *ring {
	if e.older != nil && e.older.Has(id) {
		return e.older
	}
	return e.out
}

// timesData reports whether the data message that is sent now is to be timed. Only a stream that fills a part of the
// buffer can need more.
func (e *endpoint) timesData() bool {
	if e.fixedWrite || e.leaving.Timing() || !e.out.Busy() {
		return false
	}
	e.leaving.Begin(e.clock(), e.left)
	return true
}

// sentSpan handles the completion of a message from a span.
func (e *endpoint) sentSpan(wrid uint64) {
	e.doneSpan(uint32(wrid >> 8))
	if wrid&timedData != 0 {
		e.leaving.End(e.clock(), e.left)
	}
}

// doneSpan ends a use of a span.
func (e *endpoint) doneSpan(id uint32) {
	r := e.ringOf(id)
	e.left += uint64(r.Done(id))
	if r == e.older && !r.Used() {
		e.older = nil
		if r.area != &e.store.sendArea {
			e.shrink(r.area)
		}
	}
}

// growRing replaces the send buffer by a longer one, if the path needs it. Behind a lost packet
// waits what was sent in two round trips.
func (e *endpoint) growRing() {
	if e.fixedWrite || e.older != nil || e.out.Room(1) > 0 {
		return
	}
	base := len(e.store.sendArea.bytes)
	fit := min(flight.Fit(base, e.out.Size(), 4*e.leaving.Need()), max(maxRing, base))
	if fit <= e.out.Size() {
		return
	}
	if a := e.grow(fit, 0); a != nil {
		e.store.add(a)
		e.use(a)
	}
}

// use makes an area the send buffer.
func (e *endpoint) use(a *area) {
	if old := e.out; old.Used() {
		e.older = old
	} else if old.area != &e.store.sendArea {
		defer e.shrink(old.area)
	}
	e.out = &ring{e.out.Successor(len(a.bytes)), a}
}

// skipped handles that the peer is idle and leaves a piece that has grown. What follows begins with
// pieces of the initial size.
func (e *endpoint) skipped() error {
	e.arriving.Forget()
	return e.rx.Skip()
}

// idleTrips is how many round trips a pause takes after which a stream counts as idle: what it is to send may depend on
// answers.
const idleTrips = 8

// paused reports whether nothing was sent since an earlier call, and for some round trips.
func (e *endpoint) paused() bool {
	now := e.clock()
	if n := e.tx.Sent(); n != e.quiet {
		e.quiet, e.since = n, now
		return false
	}
	return now-e.since >= idleTrips*max(e.arriving.Trip(), e.leaving.Trip())
}

// skip leaves one of the peer's pieces that have grown unused. The other one follows later: until the
// peer has granted a piece for the first one, that is what may be filled.
func (e *endpoint) skip() {
	if e.posted > 0 || !e.skips || e.controls == controlSlots || !e.life.Writable() || !e.tx.Skip(e.peerHalf) {
		return
	}
	e.wr[0] = verbs.SendWR{WRID: workControl}
	if e.postMessage(rsocket.NewMessage(rsocket.OpControl, rsocket.ControlSkip)) {
		e.controls++
	}
}

// shrinkRing goes back to the initial send buffer when nothing is being sent.
func (e *endpoint) shrinkRing() {
	if e.out.area != &e.store.sendArea && !e.out.Used() && e.older == nil {
		e.use(&e.store.sendArea)
	}
}
