package rc

import (
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// This file decides which packets can be the peer's. Addresses and queue pair numbers
// are not secret: a packet with nothing else right may be forged. docs/security.md
// states the rules and how much they protect.

// A standard peer may send its requests and its answers from different ports.
const (
	ofRequests = iota
	ofAnswers
	origins
)

func originOf(k ib.Kind) int {
	if isAnswer(k) {
		return ofAnswers
	}
	return ofRequests
}

// genuine reports whether a packet can be the peer's by its source port, and
// refuses it otherwise. It notes in trusted whether something may be learned from
// the packet, or kept of it.
func (q *QP) genuine(now time.Duration, in *machine.In, info *ib.Info) bool {
	which, port := originOf(info.Kind), in.Src.Port()
	o := &q.origins[which]
	q.trusted = true
	switch {
	case o.Is(port):
	case !o.Known() && (q.isNext(in, which) || which == ofAnswers && q.req.awaited(in, info)):
		if o.Learn(port) {
			q.mistrust()
		}
	case !o.Known():
		q.trusted = o.Guess(port)
		return true
	case q.peer != selective && o.Spread():
	case q.isNext(in, which) && (q.peer != selective || now-q.heard >= machine.OriginQuiet):
		o.Learn(port)
	default:
		q.refuse(reason.Detail{Reason: reason.PacketSourcePort, Expected: uint64(o.Port()), Found: uint64(port)})
		return false
	}
	q.heard = now
	return true
}

// mistrust forgets what was taken from a port that turns out not to be the peer's.
func (q *QP) mistrust() {
	q.peer = unmet
	q.resp.forget()
}

// isNext reports whether a packet has the PSN that is due next, or that of the last
// request: the last repetition of a peer that missed the answer. The one right before
// the next is that of a keep-alive probe.
func (q *QP) isNext(in *machine.In, which int) bool {
	if which == ofAnswers {
		return q.req.isNext(in)
	}
	next := q.resp.expected
	return in.PSN == next || in.PSN == q.resp.latest || in.PSN.Next() == next
}

// isNext reports whether an answer is to the oldest packet in flight or to the
// youngest: whatever else is lost, the peer comes to answer that one in the end. With
// nothing in flight it is the answer to a keep-alive probe.
func (r *requester) isNext(in *machine.In) bool {
	e := r.sequence(in.PSN)
	if r.una == r.max {
		return r.q.alive.asked > 0 && e == r.una-1
	}
	return e == r.una || e == r.max-1
}

// underWay reports whether sequence number e is that of something in flight.
func (r *requester) underWay(e uint32) bool { return !before(e, r.una) && before(e, r.max) }

// awaited reports whether an answer is to something in flight. A selective
// acknowledge may also say that nothing new was executed.
func (r *requester) awaited(in *machine.In, info *ib.Info) bool {
	e := r.sequence(in.PSN)
	if info.Kind == ib.KindSelectiveAck {
		e++
	}
	return r.una != r.max && !before(e, r.una) && !before(r.max, e) && (e != r.max || info.Kind == ib.KindSelectiveAck)
}

// notifies reports whether a congestion notification is plausible. One of a
// standard peer shows nothing of the connection (annex A17.9.3: its PSN is 0). One of
// softrdma comes from the port that all its packets come from, and has the PSN of
// the packet that was marked.
func (q *QP) notifies(in *machine.In) bool {
	if q.peer != selective {
		return true
	}
	port, a, b := in.Src.Port(), &q.origins[ofRequests], &q.origins[ofAnswers]
	if !a.Is(port) && !b.Is(port) {
		q.refuse(reason.Detail{Reason: reason.PacketSourcePort, Expected: uint64(max(a.Port(), b.Port())), Found: uint64(port)})
		return false
	}
	if !q.req.sentLately(in) && !q.resp.sentLately(in) {
		q.refuse(reason.Detail{Reason: reason.CongestionPSN, Expected: wire(q.req.max), Found: uint64(in.PSN)})
		return false
	}
	return true
}

// lately is how far before the oldest packet in flight the PSN of a notification may
// be: the acknowledge of the packet that it names may have overtaken it.
const lately = 256

// sentLately reports whether a request with this PSN was in flight recently.
func (r *requester) sentLately(in *machine.In) bool {
	e := r.sequence(in.PSN)
	return before(e, r.max) && !before(e, r.una-lately)
}

// sentLately reports whether an answer with this PSN was sent recently: an
// acknowledge, or a READ response, whose number no window limits.
func (r *responder) sentLately(in *machine.In) bool {
	d := r.expected.Sub(in.PSN)
	if d > 0 && d <= lately {
		return true
	}
	d = r.answeredUpTo.Sub(in.PSN)
	return r.responded && d > 0 && uint32(d) <= span(r.mtu)
}
