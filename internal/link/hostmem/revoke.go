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

// Referring reports whether a message with a Ref is unreleased.
func (s *Sender) Referring() bool {
	if s.taken >= s.refs {
		return false
	}
	s.refresh()
	return s.taken < s.refs
}

// Revoke takes back the Refs of all unreleased messages, which then count as lost packets.
// It waits for a copy that has begun, and returns false if that still runs after limit.
func (s *Sender) Revoke(limit time.Duration, clock func() time.Duration) bool {
	if !s.Referring() {
		return true
	}
	s.revoked.Store(s.sent)
	for start := clock(); ; runtime.Gosched() {
		if at := s.copying.Load(); at == 0 || at > s.sent {
			s.refs = 0
			return true
		}
		if clock()-start >= limit {
			return false
		}
	}
}

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

// Valid ends Begin and reports whether the bytes that were read are the message's payload:
// they are not if the Ref was revoked meanwhile. Release ends Begin as well.
func (r *Receiver) Valid() bool {
	valid := r.revoked.Load() <= r.next
	r.end()
	return valid
}

func (r *Receiver) end() {
	r.begun = false
	r.copying.Store(0)
}
