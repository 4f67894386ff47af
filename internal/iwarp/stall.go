package iwarp

import (
	"time"

	"softrdma/internal/machine"
)

// A message that finds no receive is a fault that DDP may recover from by means of
// TCP (RFC 5041 7.1): the stream is not read until a receive is posted, and the
// peer's TCP stands still, as a peer over InfiniBand does behind an RNR NAK. Many
// programs post their receives a moment late. A peer has no way to make it last:
// the connection ends after stallPatience.

const (
	stallPatience = time.Second

	// Nobody tells of receives that are posted: they are looked for, more and
	// more rarely.
	firstLook = 50 * time.Microsecond
	maxLook   = 4 * time.Millisecond
)

// A stall is a message's wait for a receive.
type stall struct {
	on     bool
	over   bool          // the patience is, and a message that finds none ends the connection
	rest   []byte        // what was read and not consumed, shorter than a scratch
	since  time.Duration // when it began
	look   time.Duration // pause before the next look
	lookAt time.Duration
}

// lacks tells whether a message that is to take a receive has to wait for one.
func (r *receiver) lacks(now time.Duration) bool {
	w := &r.stall
	switch {
	case r.p.RQ == nil:
		return false
	case r.p.RQ.Len() > 0:
		w.over = false
		return false
	case w.over:
		return false
	case !w.on:
		*w = stall{on: true, since: now, look: firstLook, lookAt: now + firstLook}
	}
	return true
}

// Stalled tells that nothing is to be read from the socket, as a message waits for
// a receive. Expire ends that.
func (s *Stream) Stalled() bool { return s.receives() && s.q.rx.stall.on }

// lookAt is when a stalled stream looks for a receive.
func (s *Stream) lookAt() time.Duration {
	if !s.Stalled() {
		return machine.Never
	}
	return s.q.rx.stall.lookAt
}

// look goes on with the stream where a receive was posted, or the patience is over.
func (q *QP) look(now time.Duration) {
	r := &q.rx
	w := &r.stall
	w.over = now-w.since >= stallPatience
	if !w.over && r.p.RQ.Len() == 0 {
		w.look = min(2*w.look, maxLook)
		w.lookAt = min(now+w.look, w.since+stallPatience)
		return
	}
	was := *w
	*w = stall{over: was.over}
	if r.phase == inHeader && r.have == r.need {
		if r.header(now, nil); w.on { // another queue pair took the receive
			*w = was
			w.lookAt = now + w.look
			return
		}
	}
	q.feed(now, was.rest)
}
