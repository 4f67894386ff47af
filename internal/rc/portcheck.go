package rc

import (
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/psn"
	"softrdma/internal/qp"
	"softrdma/internal/rc/conn"
	"softrdma/internal/rc/seq"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

const (
	// checkTime is for how long a peer that may have changed its port is probed.
	checkTime = time.Second

	// unconfirmedPause is the time between two packets that count although they come from
	// a port which the peer did not confirm.
	unconfirmedPause = 10 * time.Second
)

// A portCheck asks the peer whether it has changed its source port. A packet with the right
// PSN is no proof: another user of the peer's host may know the PSN. So the peer is probed
// as by the keepalive, and where the answer comes from decides. The attacker's packets do
// not reach the peer, and the probes do not reach the attacker.
type portCheck struct {
	running bool
	refused bool          // requests that were not executed before
	since   time.Duration // when the packet from another port came
	at      time.Duration // when to probe next
	pause   time.Duration // until when no unconfirmed packet counts
}

// elsewhere decides about a packet from another port than the peer's, and refuses it unless it
// counts.
func (q *QP) elsewhere(now time.Duration, in *machine.In, which int) bool {
	k, o, port := &q.check, &q.origins[which], in.Src.Port()
	selective := q.c.Peer == conn.Selective
	switch {
	case which == ofRequests && isProbe(in, q.resp.Expected()):
		// The peer may check a port, too. To answer changes nothing here.
		q.c.Trusted = false
		return true
	case which == ofAnswers && k.running && q.confirmed(now, in, selective):
		q.moved(port)
		q.heard = now
		return true
	case !q.isNext(in, which), selective && now-q.heard < machine.OriginQuiet:
	case !q.mayProbe(), !selective && q.separate():
		o.Learn(port)
		q.heard = now
		return true
	default:
		q.checkPort(now)
		if !selective && now >= k.pause {
			k.pause = now + unconfirmedPause
			q.c.Trusted = false
			return true
		}
	}
	k.refused = k.refused || k.running && which == ofRequests && !in.PSN.Before(q.resp.Expected())
	q.c.Refuse(reason.Detail{Reason: reason.PacketSourcePort, Expected: uint64(o.Port()), Found: uint64(port)})
	return false
}

// isProbe reports whether a packet is like a keepalive probe, which executes nothing.
func isProbe(in *machine.In, expected psn.PSN) bool {
	return in.Opcode == ib.RCSendOnly && len(in.Payload) == 0 && in.PSN.Next() == expected
}

// mayProbe reports whether requests may be sent. A queue pair that stays in RTR may not, and
// neither may an XRC target.
func (q *QP) mayProbe() bool {
	s := q.c.Port.Attr.State
	return (s == qp.RTS || s == qp.SQD) && q.c.Port.Type != qp.XRCRecv
}

// separate reports whether a standard peer uses one port for requests and another for answers.
// Then answers say nothing about the port of requests.
func (q *QP) separate() bool {
	a, b := &q.origins[ofRequests], &q.origins[ofAnswers]
	return a.Known() && b.Known() && a.Port() != b.Port()
}

// confirmed reports whether an answer confirms that the peer has changed its port. A standard
// peer may use several ports, and one that answers is its own. A softrdma peer has one: the
// old one must have been silent for as long as an answer takes.
func (q *QP) confirmed(now time.Duration, in *machine.In, selective bool) bool {
	r, k := &q.req, &q.check
	e := r.sequence(in.PSN)
	if seq.Before(e, r.una-1) || e != r.una-1 && !seq.Before(e, r.max) {
		return false
	}
	return !selective || q.heard < k.since && now-k.since >= machine.OriginQuiet
}

// moved takes note of the peer's new port, which answers and requests come from.
func (q *QP) moved(port uint16) {
	for i := range q.origins {
		if o := &q.origins[i]; i == ofAnswers || o.Known() {
			o.Learn(port)
		}
	}
	if q.check.refused {
		q.resp.AskAgain()
	}
	q.check = portCheck{}
}

// checkPort begins to ask the peer for its port.
func (q *QP) checkPort(now time.Duration) {
	k := &q.check
	if k.running {
		return
	}
	k.running, k.refused, k.since = true, false, now
	q.probePort(now)
}

// probePort asks the peer again, or ends the check: the old port has answered, or none has.
func (q *QP) probePort(now time.Duration) {
	k := &q.check
	if q.heard > k.since || now-k.since >= checkTime || !q.mayProbe() {
		k.running = false
		return
	}
	q.alive.wanted, k.at = true, now+machine.OriginQuiet
}

// portCheckAt is when probePort is due.
func (q *QP) portCheckAt() time.Duration {
	if !q.check.running {
		return machine.Never
	}
	return q.check.at
}

// probed reports whether the peer owes the answer to a probe.
func (q *QP) probed() bool { return q.alive.probes > 0 || q.check.running }
