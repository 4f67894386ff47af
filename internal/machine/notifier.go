package machine

import (
	"time"

	"softrdma/internal/congestion"
	"softrdma/internal/psn"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// A Notifier owes the peer of a connection congestion notifications for marked
// packets (annex A17.9.3), at most one in an interval.
type Notifier struct {
	at   time.Duration // the next one may leave
	owed bool
	psn  psn.PSN // of the packet that was marked
}

// marked is the ECN field of a packet that met a queue (RFC 3168, 5).
const marked = 3

// Marked reports whether a router marked the packet.
func (in *In) Marked() bool { return in.TOS&3 == marked }

// Look notes a received packet, and reports whether a router marked it.
func (n *Notifier) Look(now time.Duration, in *In, p *Port) bool {
	if !in.Marked() {
		return false
	}
	if now >= n.at {
		n.at, n.owed, n.psn = now+congestion.NotifyInterval, true, in.PSN
		p.Host.Refuse(p, reason.Detail{Reason: reason.CongestionMarked, Expected: 2, Found: marked})
	}
	return true
}

// Owes reports whether a notification is to be sent.
func (n *Notifier) Owes() bool { return n.owed }

// About returns the PSN of the packet that the notification is about.
func (n *Notifier) About() psn.PSN { return n.psn }

// Next produces the notification that is owed.
func (n *Notifier) Next(a *qp.Attr, out *Out) {
	// Annex A17.9.3: BECN set, PSN and the rest 0, 16 reserved bytes.
	n.owed = false
	out.BTH = ib.BTH{Opcode: ib.CongestionNotify, DestQPN: a.DestQPN, BECN: true}
	out.Path = &a.Path
	out.Pieces, out.Len = append(out.Pieces[:0], reserved[:]), len(reserved)
}

var reserved [16]byte
