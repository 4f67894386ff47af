package hostmem

import (
	"runtime"
	"time"
)

// # Revocation
//
// A receiver that uses a Ref stores copying, then loads revoked. A sender that revokes stores
// revoked, then loads copying. The later of the two loads sees the other side's store: either
// Begin refuses, or Revoke waits until copying is cleared. Messages that are published later
// are not affected.
//
// The receiver may be stopped while it copies, so Revoke waits for a limited time. The
// sender's program may then change the memory that is being copied. The receiver loads revoked
// again after its reads, and drops the message if they may have been too late.

// Referring reports whether an unreleased message has a Ref.
func (s *Sender) Referring() bool {
	if s.taken >= s.refs {
		return false
	}
	s.refresh()
	return s.taken < s.refs
}

// Revoke invalidates the Refs of all unreleased messages, which then count as lost packets. It
// waits for a copy in progress, and reports whether it has ended within limit. The receiver
// discards a copy that takes longer (Intact), and later Revokes do not wait for it.
func (s *Sender) Revoke(limit time.Duration, clock func() time.Duration) bool {
	if !s.Referring() {
		return true
	}
	s.raiseRevoked(s.sent)
	s.refs = 0
	for start := clock(); ; runtime.Gosched() {
		at := s.copying.Load()
		if at == 0 || at > s.sent {
			return true
		}
		if at == s.stuck || clock()-start >= limit {
			s.stuck = at
			return false
		}
	}
}

// raiseRevoked invalidates the Refs of the first n messages.
func (s *Sender) raiseRevoked(n uint64) {
	s.revoking.Lock()
	defer s.revoking.Unlock()
	if n > s.revokedTo {
		s.revokedTo = n
		s.revoked.Store(n)
	}
}

// RevokeNext invalidates the Refs of all published messages and of the next one. It does not
// wait.
func (s *Sender) RevokeNext() { s.raiseRevoked(s.sent + 1) }

// RevokeFirst is Revoke for the first n messages, which have been published. Any goroutine may
// call it.
func (s *Sender) RevokeFirst(n uint64, limit time.Duration, clock func() time.Duration) bool {
	s.raiseRevoked(n)
	for start := clock(); ; runtime.Gosched() {
		at := s.copying.Load()
		if at == 0 || at > n {
			return true
		}
		if clock()-start >= limit {
			return false
		}
	}
}

// Released reports whether the receiver claims to have released the first n messages. Any
// goroutine may call it.
func (s *Sender) Released(n uint64) bool { return s.head.Load() >= n }

// Begin announces that the receiver is about to read the payload that the message's Ref
// references. It returns false if the Ref was revoked: the payload must not be read, and the
// message counts as a lost packet.
func (r *Receiver) Begin() bool {
	r.begun = true
	r.copying.Store(r.next + 1)
	if r.revoked.Load() > r.next {
		r.end()
		return false
	}
	return true
}

// Intact reports whether the bytes read since Begin are the message's payload. They are not if
// the Ref was revoked meanwhile.
func (r *Receiver) Intact() bool {
	r.copying.Add(0) // orders the reads of the payload before the load
	return r.revoked.Load() <= r.next
}

// Valid is Intact and ends Begin. Release ends Begin as well.
func (r *Receiver) Valid() bool {
	intact := r.Intact()
	r.end()
	return intact
}

func (r *Receiver) end() {
	r.begun = false
	r.copying.Store(0)
}
