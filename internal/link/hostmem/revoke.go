package hostmem

import (
	"runtime"
	"time"
)

// # Revocation
//
// A receiver that uses a Ref stores copying, then loads revoked. A sender that revokes stores
// revoked, then loads copying. The load that comes last sees the other side's store: either
// Begin refuses, or Revoke waits until copying is cleared. Messages that are published later
// are not affected.
//
// The receiver may be stopped while it copies, so Revoke waits for a limited time. Then the
// sender's program may change the memory that is being copied. The receiver loads revoked once
// more behind its reads, and drops the message if they may have come too late.

// Referring reports whether a message with a Ref is unreleased.
func (s *Sender) Referring() bool {
	if s.taken >= s.refs {
		return false
	}
	s.refresh()
	return s.taken < s.refs
}

// Revoke takes back the Refs of all unreleased messages, which then count as lost packets.
// It waits for a copy that has begun, and reports whether that has ended within limit. A copy
// that goes on is of no use to the receiver (Intact), and no later Revoke waits for it.
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

// raiseRevoked takes back the Refs of the first n messages.
func (s *Sender) raiseRevoked(n uint64) {
	s.revoking.Lock()
	defer s.revoking.Unlock()
	if n > s.revokedTo {
		s.revokedTo = n
		s.revoked.Store(n)
	}
}

// RevokeNext takes back the Refs of all messages that were published, and that of the next
// one. It does not wait.
func (s *Sender) RevokeNext() { s.raiseRevoked(s.sent + 1) }

// RevokeFirst is Revoke for the first n messages, which have been published. It may be called
// by any goroutine.
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

// Released reports whether the receiver says that it has released the first n messages. It may
// be called by any goroutine.
func (s *Sender) Released(n uint64) bool { return s.head.Load() >= n }

// Begin announces that the receiver is about to read the payload that the message's Ref
// names. It returns false if the Ref was revoked: the payload must not be read, and the
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

// Intact reports whether the bytes that were read since Begin are the message's payload: they
// are not if the Ref was revoked meanwhile.
func (r *Receiver) Intact() bool {
	r.copying.Add(0) // orders the reads of the payload before the load
	return r.revoked.Load() <= r.next
}

// Valid is Intact, and ends Begin. Release ends Begin as well.
func (r *Receiver) Valid() bool {
	intact := r.Intact()
	r.end()
	return intact
}

func (r *Receiver) end() {
	r.begun = false
	r.copying.Store(0)
}
