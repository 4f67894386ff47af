package rc

import (
	"time"

	"softrdma/internal/congestion"
	"softrdma/internal/machine"
	"softrdma/internal/rc/conn"
	"softrdma/internal/rc/seq"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// notified takes a congestion notification (annex A17.9.3): the sender slows down.
func (q *QP) notified(now time.Duration) {
	if q.kind == congestion.None {
		q.c.Refuse(reason.Detail{Reason: reason.CongestionIgnored, Expected: uint64(congestion.Window), Found: uint64(q.c.Port.QPN)})
		return
	}
	q.ctl.Notified(now, &q.req.recovery.trips.acks)
	q.c.Refuse(reason.Detail{Reason: reason.CongestionNotified, Expected: uint64(q.ctl.Window()), Found: uint64(q.ctl.Rate())})
}

// paced reports whether the congestion control lets no data leave now.
func (q *QP) paced(now time.Duration) bool {
	if !q.paces {
		return false
	}
	at := q.ctl.Ready(now)
	if at <= now {
		q.paceAt = machine.Never
		return false
	}
	q.paceAt = at
	return true
}

// count tells a control that paces of a packet that leaves. Answers to READs are not
// acknowledged, so only DCQCN counts them, which knows rates without acknowledges.
func (q *QP) count(now time.Duration, out *machine.Out) {
	if isAcknowledge(out.Opcode) || q.kind != congestion.DCQCN && isAnswer(out.Opcode.Info().Kind) {
		return
	}
	q.ctl.Sent(now, out.Len+max(out.Train, 1)*overhead, q.req.flight())
}

// isAcknowledge reports whether a packet is one that no congestion control counts.
func isAcknowledge(o ib.Opcode) bool {
	return o == ib.RCAcknowledge || o == ib.RCSelectiveAck || o == ib.RCReason || o == ib.RCPathProbe || o == ib.RCTelemetry || o == ib.CongestionNotify
}

// plausibleNotification reports whether a congestion notification may be the peer's. One
// of a standard peer shows nothing of the connection (annex A17.9.3: its PSN is 0). One of
// softrdma comes from the port that all its packets come from, and has the PSN of the
// packet that was marked.
func (q *QP) plausibleNotification(in *machine.In) bool {
	if q.c.Peer != conn.Selective {
		return true
	}
	port, a, b := in.Src.Port(), &q.origins[ofRequests], &q.origins[ofAnswers]
	if !a.Is(port) && !b.Is(port) {
		q.c.Refuse(reason.Detail{Reason: reason.PacketSourcePort, Expected: uint64(max(a.Port(), b.Port())), Found: uint64(port)})
		return false
	}
	if !q.req.sentLately(in) && !q.resp.SentLately(in.PSN, lately) {
		q.c.Refuse(reason.Detail{Reason: reason.CongestionPSN, Expected: seq.Detail(q.req.max), Found: uint64(in.PSN)})
		return false
	}
	return true
}

// lately is how far before the oldest packet in flight the PSN of a notification may be:
// the acknowledge of the packet that it names may have overtaken it.
const lately = 256

// sentLately reports whether a request with this PSN was in flight recently.
func (r *unacked) sentLately(in *machine.In) bool {
	e := r.sequence(in.PSN)
	return seq.Before(e, r.max) && !seq.Before(e, r.una-lately)
}
