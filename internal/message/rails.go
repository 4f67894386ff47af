package message

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// MaxRails bounds the rails of a connection.
const MaxRails = 4

// RailLen is the length of the header of each frame of a connection of several rails.
//
//	number of the frame (8 bytes) | the newest frame that arrived (8) | flags (1)
//	for each of MaxRails rails the newest connection that has failed (4)
//
// Number 0 means that no frame follows.
const RailLen = railFailed + 4*MaxRails

// Offsets of the flags, and of the connections that have failed.
const (
	railFlags  = 16
	railFailed = 17
)

// railAnswer in the flags asks the peer to send an answer at once.
const railAnswer = 1

// railWindow is how many unacknowledged frames may be in flight.
const railWindow = 64

// Rails carry the frames of one connection between two workers, over several connections that
// can fail. One rail at a time carries all frames. When it fails, the frames that the peer has
// not acknowledged are sent again on another rail. Completions are not enough: they say
// nothing about a frame whose rail fails. The receiver accepts each number once, in order.
//
// A failed rail can be connected again. Its connections have numbers from 1, which both ends
// know, so that a statement of the peer about an old connection is not applied to the new one.
type Rails struct {
	post    func(rail int, b []byte)
	rails   int
	joined  [MaxRails]uint32 // newest connection that was up
	failed  [MaxRails]uint32 // newest connection that failed or never came up
	known   [MaxRails]uint32 // newest connection that failed at the peer
	current int
	kept    [][]byte // unacknowledged frames, from number acked + 1
	acked   uint64
	sent    uint64 // newest frame on the current rail
	got     uint64 // newest frame that arrived
	said    uint64 // newest frame that the peer knows to have arrived
	asked   uint64 // newest frame that the peer was asked to acknowledge
}

// NewRails returns rails, none of which is up. post sends bytes on one of them, in order; it
// does not change them, and may use them later.
func NewRails(rails int, post func(rail int, b []byte)) *Rails {
	return &Rails{rails: rails, post: post}
}

// Join reports that a connection of a rail is up. Earlier ones have failed at both ends. Join
// returns false if this one has failed, too.
func (r *Rails) Join(rail int, connection uint32) bool {
	if connection <= r.failed[rail] {
		return false
	}
	r.joined[rail] = connection
	r.known[rail] = max(r.known[rail], connection-1)
	if !r.Up(r.current) {
		r.current, r.sent = rail, r.acked
	}
	r.pump()
	return true
}

// Up reports whether frames can be sent on a rail.
func (r *Rails) Up(rail int) bool { return r.joined[rail] > r.failed[rail] }

// Failed returns the newest connection of a rail that has failed here, or 0. KnownFailed
// returns the newest that has failed at the peer.
func (r *Rails) Failed(rail int) uint32      { return r.failed[rail] }
func (r *Rails) KnownFailed(rail int) uint32 { return r.known[rail] }

// Send sends a frame.
func (r *Rails) Send(h *Header, payload [][]byte) {
	b := make([]byte, RailLen+Size(payload))
	h.PutFrame(b[RailLen:], payload)
	r.kept = append(r.kept, b)
	r.pump()
}

// Last returns the number of the newest frame.
func (r *Rails) Last() uint64 { return r.acked + uint64(len(r.kept)) }

// Acknowledged returns the number of the newest frame that has arrived at the peer.
func (r *Rails) Acknowledged() uint64 { return r.acked }

// Current returns the rail that carries frames. It reports false if none is up.
func (r *Rails) Current() (rail int, ok bool) { return r.current, r.Up(r.current) }

// Settled reports whether the peer knows of all failed connections, so that no more data
// travels on them.
func (r *Rails) Settled() bool {
	for i := range r.rails {
		if r.failed[i] > r.known[i] {
			return false
		}
	}
	return true
}

// pump sends frames as far as the window allows.
func (r *Rails) pump() {
	for r.sent < r.Last() && r.sent-r.acked < railWindow && r.Up(r.current) {
		b := r.kept[r.sent-r.acked]
		r.sent++
		flags := byte(0)
		if r.sent == r.asked { // for the first time, or again because its rail has failed
			flags = railAnswer
		}
		r.stamp(b, r.sent, flags)
		r.post(r.current, b)
	}
}

func (r *Rails) stamp(b []byte, number uint64, flags byte) {
	binary.BigEndian.PutUint64(b, number)
	binary.BigEndian.PutUint64(b[8:], r.got)
	b[railFlags] = flags
	for i, n := range r.failed {
		binary.BigEndian.PutUint32(b[railFailed+4*i:], n)
	}
	r.said = r.got
}

// tell sends information on a rail without a frame.
func (r *Rails) tell(rail int, flags byte) {
	if !r.Up(rail) {
		return
	}
	b := make([]byte, RailLen)
	r.stamp(b, 0, flags)
	r.post(rail, b)
}

// Ask makes the peer acknowledge all frames, including those that wait for the window. It asks once:
// after a failure of a rail both ends ask again by themselves.
func (r *Rails) Ask() {
	if r.asked == r.Last() {
		return
	}
	if r.asked = r.Last(); r.sent == r.asked {
		r.tell(r.current, railAnswer)
	}
}

// Fail reports that a connection of a rail, and each earlier one, has failed here. The owner
// has ended it: data that arrives on it is ignored.
func (r *Rails) Fail(rail int, connection uint32) {
	if connection <= r.failed[rail] {
		return
	}
	r.failed[rail] = connection
	for i := 0; i < r.rails && !r.Up(r.current); i++ {
		r.current = (r.current + 1) % r.rails
		r.sent = r.acked
	}
	for i := range r.rails { // one end's current rail may be down for the other
		r.tell(i, railAnswer)
	}
	r.pump()
}

// Arrive processes bytes that arrived on a rail. It returns the frame among them, or nil, and
// as bits the rails of which a connection has failed for the peer but not here: the owner ends
// it and calls Fail with KnownFailed. An error means that the peer violates the protocol.
func (r *Rails) Arrive(b []byte) (frame []byte, down uint8, err error) {
	if len(b) < RailLen {
		return nil, 0, fmt.Errorf("%w: %d bytes on a rail, expected at least %d", ErrFrame, len(b), RailLen)
	}
	number, got := binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])
	switch {
	case got > r.Last():
		return nil, 0, fmt.Errorf("%w: frame %d has arrived, the last one is %d", ErrFrame, got, r.Last())
	case number > r.got+1:
		return nil, 0, fmt.Errorf("%w: frame %d of a rail, expected at most %d", ErrFrame, number, r.got+1)
	case b[railFlags]&^railAnswer != 0 || number == 0 && len(b) > RailLen:
		return nil, 0, fmt.Errorf("%w: flags %#x, %d bytes", ErrFrame, b[railFlags], len(b))
	}
	for i := range MaxRails {
		n := binary.BigEndian.Uint32(b[railFailed+4*i:])
		switch {
		case n > 0 && i >= r.rails:
			return nil, 0, fmt.Errorf("%w: rail %d has failed, expected at most %d", ErrFrame, i, r.rails-1)
		case n > r.failed[i]:
			down |= 1 << i
		}
		r.known[i] = max(r.known[i], n)
	}
	if got > r.acked {
		n := int(got - r.acked)
		r.kept = slices.Delete(r.kept, 0, n)
		r.acked = got
		r.sent = max(r.sent, got)
	}
	if number == r.got+1 {
		r.got = number
		frame = b[RailLen:]
	}
	if b[railFlags]&railAnswer != 0 || r.got-r.said >= railWindow/2 {
		r.tell(r.current, 0)
	}
	r.pump()
	return frame, down, nil
}
