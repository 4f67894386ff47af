package message

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
)

// An active is an active message that the end has not released, or whose data is being read.
type active struct {
	Active
	frame []byte
}

// unknown is the ID of active messages without a handler.
const unknown = 9

// sendActive sends an active message whose header contains its number.
func (e *end) sendActive(n int, id uint64) {
	s := e.message(n, id)
	s.Class = Actives
	s.Header = make([]byte, 4+e.world.rng.IntN(40))
	binary.BigEndian.PutUint32(s.Header, uint32(len(e.actives)))
	e.actives = append(e.actives, s)
	e.w.Send(e.peer, s)
}

// Active checks that active messages come in order and with their headers.
func (e *end) Active(a *Active) bool {
	if e.other == nil { // a forged frame
		return a.ID != unknown
	}
	if e.handled >= len(e.other.actives) {
		e.world.failf("more active messages than were sent")
		return false
	}
	s := e.other.actives[e.handled]
	e.handled++
	if !bytes.Equal(a.Header, s.Header) || uint64(a.ID) != s.Tag || a.Length != s.Length {
		e.world.failf("active message %d arrives as %d", binary.BigEndian.Uint32(s.Header), a.Header)
	}
	if a.ID == unknown {
		return false
	}
	e.held = append(e.held, &active{Active: *a, frame: e.frame})
	return true
}

func (e *end) Over(a *Active) {
	i := slices.IndexFunc(e.held, func(x *active) bool { return &x.Active == a })
	if i < 0 {
		e.world.failf("an active message is over twice")
		return
	}
	clear(e.held[i].frame)
	e.held = slices.Delete(e.held, i, i+1)
}

// A rejection is the error of a send whose data the other end has rejected.
type rejection uint32

func (r rejection) Error() string { return fmt.Sprintf("rejected with reason %d", uint32(r)) }

func (*end) Rejected(reason uint32) error { return rejection(reason) }

// handle does something with one of the active messages.
func (e *end) handle(receive bool) {
	if len(e.held) == 0 {
		return
	}
	a := e.held[e.world.rng.IntN(len(e.held))]
	switch {
	case receive && !a.Taken():
		r := e.buffer([]int{200, 200, 10}[e.world.rng.IntN(3)])
		e.w.ReceiveActive(r, &a.Active)
	case e.other != nil && !a.released && e.world.rng.IntN(3) == 0:
		reason := 1 + e.world.rng.Uint32N(100)
		if a.Announced() && !a.Taken() {
			e.other.rejected[binary.BigEndian.Uint32(a.Header)] = rejection(reason)
		}
		a.Reject(reason)
		e.w.ReleaseActive(&a.Active)
	default:
		e.w.ReleaseActive(&a.Active)
	}
}
