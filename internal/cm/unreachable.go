package cm

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"time"

	"softrdma/internal/reason"
	"softrdma/internal/wire/mad"
)

// When the network answers that nobody is at the peer's address, a message is sent
// hintRetries times more, hintWait apart, before its sender gives up. A peer that is
// there answers one of them.
const (
	hintRetries = 2
	hintWait    = 200 * time.Millisecond
)

// quotedLen is how much of a message the network has to quote for it to be known: the
// header with the transaction ID, and the communication or request ID.
const quotedLen = mad.HeaderLen + 4

// Unreachable takes what the network says about a message that was sent to dst: d,
// and the beginning of the message. It is a hint, which anybody can forge who has seen
// the message: the message is repeated sooner and not so often, and the wait for its
// answer ends soon where none comes. It reports whether the message waits for an answer.
func (m *Manager) Unreachable(now time.Duration, dst netip.AddrPort, quoted []byte, d reason.Detail) bool {
	if len(quoted) < quotedLen {
		return false
	}
	id := binary.BigEndian.Uint32(quoted[mad.HeaderLen:])
	if c := m.conns[id]; c != nil && isBeginning(quoted, c.waiting) && home(c.peer) == home(dst) {
		if c.hint.Reason == reason.None {
			c.hint, c.left, c.wait, c.early = d, min(c.left, hintRetries), min(c.wait, hintWait), 0
			m.timers.set(&c.timer, now+c.wait)
		}
		return true
	}
	if l := m.lookups[id]; l != nil && isBeginning(quoted, l.waiting) && home(l.path.Dst) == home(dst) {
		if l.hint.Reason == reason.None {
			l.hint, l.left, l.timeout = d, min(l.left, hintRetries), min(l.timeout, hintWait)
			m.timers.set(&l.timer, now+l.timeout)
		}
		return true
	}
	return false
}

// isBeginning reports whether a quotation is the beginning of a message.
func isBeginning(quoted []byte, d *[mad.Len]byte) bool {
	return d != nil && bytes.Equal(quoted[:min(len(quoted), mad.Len)], d[:min(len(quoted), mad.Len)])
}
