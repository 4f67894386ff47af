package hostpath

import (
	"runtime"
	"time"

	"softrdma/internal/link/hostmem"
	"softrdma/internal/reason"
)

// References to a window end with its binding, before a completion reports that (IBTA 10.6.7.2).
// A type 1 window may be bound again by any queue pair of its protection domain, also by one of
// another lane. The holder of that lane must not wait for this one's lock. It revokes the
// references by itself (RevokeWindowsOutside), and this lane does the rest later.
//
// A lane that posts a reference checks the window's key under windowMu. Either it finds the key
// invalid, or the call that has made it invalid finds the reference.

// windows are the references of one Sender to windows. The lane's windowMu guards them.
type windows struct {
	upTo uint64 // messages published up to the last with such a reference; 0 if there is none
	lost bool   // some were revoked, and the machines do not know
}

// referWindow posts a payload in a window. If the key is invalid, the message arrives without
// its payload: the peer asks again, and its request is refused.
func (s *Sender) referWindow(i *Item, r hostmem.Ref) (posted bool) {
	l := s.lane
	l.windowMu.Lock()
	defer l.windowMu.Unlock()
	if !i.Region.Valid() {
		s.RevokeNext()
		s.windows.lost = true
		return s.Refer(&i.Head, i.Header, r, i.Len)
	}
	posted = s.Refer(&i.Head, i.Header, r, i.Len)
	if posted {
		s.windows.upTo = s.Sent()
	}
	return posted
}

// Invalidated revokes the references to windows if bindings of windows have ended since the
// last call, and reports whether that is so. n counts those. A completion that reports an
// invalidation comes after the call.
func (l *Lane) Invalidated(n uint32) bool {
	if n == l.invalidated {
		return false
	}
	l.invalidated = n
	l.RevokeWindows()
	return true
}

// RevokeWindows revokes the references to windows.
func (l *Lane) RevokeWindows() {
	l.windowMu.Lock() // until they are revoked: other lanes rely on it
	defer l.windowMu.Unlock()
	for _, p := range l.paths {
		for _, s := range p.senders {
			w := s.windows
			s.windows = windows{}
			if w.upTo != 0 && !s.use(w.upTo) {
				s.revoke()
			}
			if w.lost {
				l.Port.Revoked(p)
			}
		}
	}
}

// RevokeWindowsOutside revokes the references to windows without the lane's lock. The lane's
// machines learn of it by the next RevokeWindows.
func (l *Lane) RevokeWindowsOutside() {
	l.windowMu.Lock()
	defer l.windowMu.Unlock()
	for _, p := range l.paths {
		for _, s := range p.senders {
			if s.windows.upTo != 0 {
				s.revokeOutside()
			}
		}
	}
}

// revokeOutside revokes the references to windows of one sender, after it has given the peer
// time to use them. The caller has windowMu.
func (s *Sender) revokeOutside() {
	l, n := s.lane, s.windows.upTo
	s.windows.upTo = 0
	if l.Bells != nil { // else simulated time: the peer does not run beside this lane
		for start := l.Clock(); !s.Released(n) && l.Clock()-start < useWait; {
			runtime.Gosched()
		}
	}
	if s.Released(n) {
		return
	}
	s.windows.lost = true
	if !s.RevokeFirst(n, copyWait, l.Clock) {
		l.Port.Refused(stillCopied())
	}
}

// stillCopied is the refusal of a peer that copies for longer than copyWait what it has lost.
func stillCopied() reason.Detail {
	return reason.Detail{Reason: reason.HostRevoked, Expected: uint64(copyWait / time.Microsecond)}
}
