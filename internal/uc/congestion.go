package uc

import (
	"time"

	"softrdma/internal/congestion"
	"softrdma/internal/machine"
	"softrdma/internal/reason"
)

// overhead is the size of a packet's headers in the pace.
const overhead = 64

// A pacer is a sender's congestion control. There are no acknowledges, so congestion
// notifications are its only input, and it has a rate and no window.
type pacer struct {
	kind congestion.Kind
	ctl  congestion.Control // created with the first packet
	at   time.Duration      // when the next packet may be sent
}

func newPacer(k congestion.Kind) pacer { return pacer{kind: k, at: machine.Never} }

// waits reports whether no packet may be sent now.
func (p *pacer) waits(now time.Duration) bool {
	p.at = machine.Never
	if p.ctl == nil {
		return false
	}
	if at := p.ctl.Ready(now); at > now {
		p.at = at
		return true
	}
	return false
}

// sent counts a packet of n bytes, and reports whether it may be marked.
func (p *pacer) sent(now time.Duration, n, mtu int) (markable bool) {
	if p.kind != congestion.DCQCN {
		return false
	}
	if p.ctl == nil {
		p.ctl = congestion.New(p.kind, congestion.Limits{Window: 1 << 30, Packet: mtu + overhead})
	}
	p.ctl.Sent(now, n+overhead, 0)
	return true
}

// unknown is an unmeasured round trip.
var unknown congestion.RTT

// notified handles a congestion notification: the sender slows down.
func (q *QP) notified(now time.Duration) {
	if q.pacer.ctl == nil {
		q.Host.Refuse(q.Port, reason.Detail{Reason: reason.CongestionIgnored, Expected: uint64(congestion.DCQCN), Found: uint64(q.QPN)})
		return
	}
	q.pacer.ctl.Notified(now, &unknown)
	q.Host.Refuse(q.Port, reason.Detail{Reason: reason.CongestionNotified, Found: uint64(q.pacer.ctl.Rate())})
}

// Deadline implements machine.Machine.
func (q *QP) Deadline() time.Duration { return min(q.Queues.Deadline(), q.pacer.at) }

// Expire implements machine.Machine.
func (q *QP) Expire(now time.Duration) {
	if q.pacer.at <= now {
		q.pacer.at = machine.Never
	}
	q.Queues.Expire(now)
}
