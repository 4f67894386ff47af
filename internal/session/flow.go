package session

import (
	"encoding/binary"
	"fmt"
)

// reserved are the receives of the peer that only Credit frames use. At most one is in flight:
// the next one needs frames of the peer, which has consumed the first one to send them.
const reserved = 2

// A Flow counts the frames of one connection, so that neither end sends a frame for which the
// other has no receive.
type Flow struct {
	own, peer uint32 // receives of each end
	sent      uint32
	acked     uint32 // frames that the peer has consumed
	consumed  uint32
	reported  uint32 // of consumed, in the last frame
}

// NewFlow returns the flow of a connection with the receives of both ends.
func NewFlow(own, peer int) *Flow { return &Flow{own: uint32(own), peer: uint32(peer)} }

// Ready reports whether the peer has a receive for a frame.
func (f *Flow) Ready() bool { return f.sent-f.acked < f.peer-reserved }

// Stamp counts a frame and sets its field Consumed. A frame that is nil is only counted.
func (f *Flow) Stamp(frame []byte) {
	f.sent++
	if frame != nil {
		f.reported = f.consumed
		binary.BigEndian.PutUint32(frame[consumedAt:], f.consumed)
	}
}

// Learn processes the field Consumed of a received frame. The error matches ErrProtocol.
func (f *Flow) Learn(frame []byte) error {
	if len(frame) < HeaderLen {
		return tooShort(frame)
	}
	consumed := binary.BigEndian.Uint32(frame[consumedAt:])
	if consumed-f.acked > f.sent-f.acked {
		return fmt.Errorf("%w: it has consumed frame %d, the last one was %d", ErrProtocol, consumed, f.sent)
	}
	f.acked = consumed
	return nil
}

// Consume counts a frame of the peer whose receive was posted again.
func (f *Flow) Consume() { f.consumed++ }

// Owes reports whether consumed frames must be reported to the peer by a Credit frame, unless
// another frame is sent. The receives that are held cannot be consumed, so the peer runs out of the others.
func (f *Flow) Owes(held int) bool { return f.consumed-f.reported >= max(1, (f.own-uint32(held))/2) }

// Grant makes a Credit frame.
func (f *Flow) Grant(b []byte) int {
	h := Header{Kind: Credit}
	h.Put(b)
	f.Stamp(b)
	return HeaderLen
}
