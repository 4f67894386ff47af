package cm

import (
	"time"

	"softrdma/internal/reason"
	"softrdma/internal/wire/mad"
)

// A Listener accepts requests for one service ID, both for connections and for service ID
// resolution.
type Listener struct {
	Context any // the user's

	// Backlog is how many requests may wait for Accept or Reject, or for Inquiry.Reply.
	// Further requests are dropped, and their senders retry. 0 means no limit.
	Backlog int

	m       *Manager
	service mad.ServiceID
	waiting int
	closed  bool
}

// Listen makes a listener (IBTA 12.7.3). A service ID has one at a time. The error is an
// *Error.
func (m *Manager) Listen(_ time.Duration, sid mad.ServiceID) (*Listener, error) {
	if m.listeners[sid] != nil {
		return nil, &Error{"listen", "", reason.Detail{Reason: reason.CMServiceBusy, Expected: 0, Found: uint64(sid)}}
	}
	l := &Listener{m: m, service: sid}
	m.listeners[sid] = l
	return l, nil
}

// Service returns the service ID that the listener serves.
func (l *Listener) Service() mad.ServiceID { return l.service }

// Waiting returns how many requests wait for the user's decision.
func (l *Listener) Waiting() int { return l.waiting }

// Close closes the listener. Requests that it has reported continue.
func (l *Listener) Close() {
	if !l.closed {
		l.closed = true
		delete(l.m.listeners, l.service)
	}
}

// full reports whether there is no room for another request.
func (l *Listener) full() bool { return l.Backlog > 0 && l.waiting >= l.Backlog }
