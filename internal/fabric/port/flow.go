package port

import (
	"time"

	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// A Flow is the kind of flow control of a link. Both ends have the same.
type Flow uint8

// The kinds of flow control.
const (
	Credits Flow = iota // InfiniBand's: a packet leaves when the neighbor has room for it
	NoFlow              // packets leave at once, and a neighbor without room drops them
)

// A flow is the flow control of a port's data lanes, for both directions. The port tells it what
// comes and leaves, asks it before a packet leaves, and carries its link packets.
type flow interface {
	up(now time.Duration) // the link has come up: both ends start from zero
	down()                // the link has gone

	room(vl, blocks int) bool // the neighbor has room for a packet
	sent(vl, blocks int)      // a packet leaves
	arrived(vl, blocks int)   // a packet came, which has a place in the buffer, or was dropped
	freed(vl int)             // the buffer of a lane has more room, or a packet was dropped

	// overrun is why a packet that finds no room is dropped, and whether the neighbor may not
	// send such a packet.
	overrun(size, needed int) (d reason.Detail, violation bool)

	receive(now time.Duration, f *ib.FlowControl) // a link packet
	next(now time.Duration) ib.FlowControl        // the next to send, without Op

	// refresh marks the lanes whose link packets are due again. It returns the lanes whose neighbor
	// was silent for too long, if asked to watch.
	refresh(now, every time.Duration, vls int, watch bool) (silent uint16)
	refreshAll(now time.Duration, vls int)               // marks all
	deadline(every time.Duration, vls int) time.Duration // of refresh
}

// A buffer is the room for packets that arrive on the data lanes, in blocks. The flow control
// marks the lanes of which the neighbor is to be told.
type buffer struct {
	size     int // of each lane
	occupied [MaxVLs]int32
	tell     uint16 // data lanes with a link packet to send
}

func (f Flow) new(b *buffer, lanes int) flow {
	if f == NoFlow {
		return lossy{}
	}
	return &credits{buffer: b, lanes: make([]account, lanes)}
}

// lossy is no flow control.
type lossy struct{}

func (lossy) up(time.Duration)                                          {}
func (lossy) down()                                                     {}
func (lossy) room(int, int) bool                                        { return true }
func (lossy) sent(int, int)                                             {}
func (lossy) arrived(int, int)                                          {}
func (lossy) freed(int)                                                 {}
func (lossy) receive(time.Duration, *ib.FlowControl)                    {}
func (lossy) next(time.Duration) (f ib.FlowControl)                     { return f }
func (lossy) refresh(_, _ time.Duration, _ int, _ bool) (silent uint16) { return 0 }
func (lossy) refreshAll(time.Duration, int)                             {}
func (lossy) deadline(time.Duration, int) time.Duration                 { return Never }

func (lossy) overrun(size, needed int) (reason.Detail, bool) {
	return reason.Detail{Reason: reason.FabricBufferFull, Expected: uint64(size), Found: uint64(needed)}, false
}
