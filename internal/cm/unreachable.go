package cm

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"time"

	"softrdma/internal/reason"
	"softrdma/internal/wire/mad"
)

// When the network reports that the peer's address is unreachable, the message is
// sent hintRetries more times, hintWait apart, before its sender gives up. A peer
// that is alive answers one of them.
const (
	hintRetries = 2
	hintWait    = 200 * time.Millisecond
)

// quotedLen is how much of a message an ICMP error must quote for the message to be
// identified: the header with the transaction ID, and the communication or request
// ID.
const quotedLen = mad.HeaderLen + 4

// Unreachable handles a network error d about a message that was sent to dst and
// whose beginning the network quoted. Any host that has seen the message can forge the
// error, so it is only a hint: the message is repeated sooner and fewer times, and
// the wait for an answer ends earlier. Unreachable reports whether the message waits
// for an answer.
func (m *Manager) Unreachable(now time.Duration, dst netip.AddrPort, quoted []byte, d reason.Detail) bool {
	if len(quoted) < quotedLen {
		return false
	}
	id := binary.BigEndian.Uint32(quoted[mad.HeaderLen:])
	if c := m.conns[id]; c != nil && isBeginning(quoted, c.waiting) && m.home(c.peer()) == m.home(dst) {
		if c.hint.Reason == reason.None {
			c.hint, c.left, c.wait, c.early = d, min(c.left, hintRetries), min(c.wait, hintWait), 0
			m.timers.set(&c.timer, now+c.wait)
		}
		return true
	}
	if l := m.lookups[id]; l != nil && isBeginning(quoted, l.waiting) && m.home(l.route.Path.Dst) == m.home(dst) {
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
