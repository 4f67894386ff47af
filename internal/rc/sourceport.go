package rc

import (
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/rc/conn"
	"softrdma/internal/rc/seq"
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
	o, other := &q.origins[which], &q.origins[origins-1-which]
	selective := q.c.Peer == conn.Selective
	q.c.Trusted = true
	switch {
	case o.Is(port):
	case selective && other.Known():
		if !other.Is(port) { // it sends all packets of a connection from one port
			return q.elsewhere(now, in, which)
		}
		o.Learn(port)
	case !o.Known() && q.check.running && !other.Is(port):
		return q.elsewhere(now, in, which)
	case !o.Known() && (q.isNext(in, which) || which == ofAnswers && q.req.awaited(in, info)):
		if o.Learn(port) {
			q.mistrust()
		}
	case !o.Known():
		q.c.Trusted = o.Guess(port)
		return true
	case !selective && o.Spread():
	default:
		return q.elsewhere(now, in, which)
	}
	q.heard = now
	return true
}

// mistrust drops what was taken from a port that turns out not to be the peer's.
func (q *QP) mistrust() {
	q.c.Peer = conn.Unknown
	q.resp.DropHeld()
}

// isNext reports whether a packet has the PSN that is due next, or that of the last
// request: the last repetition of a peer that missed the answer. The one right before
// the next is that of a keep-alive probe.
func (q *QP) isNext(in *machine.In, which int) bool {
	if which == ofAnswers {
		return q.req.isNext(in)
	}
	return q.resp.Due(in.PSN)
}

// isNext reports whether an answer is to the oldest packet in flight or to the
// youngest: whatever else is lost, the peer comes to answer that one in the end. Before it is the answer
// to a keep-alive probe.
func (r *unacked) isNext(in *machine.In) bool {
	e := r.sequence(in.PSN)
	if r.q.probed() && e == r.una-1 {
		return true
	}
	if r.una == r.max {
		return false
	}
	return e == r.una || e == r.max-1
}

// awaited reports whether an answer is to something in flight. A selective
// acknowledge may also say that nothing new was executed.
func (r *unacked) awaited(in *machine.In, info *ib.Info) bool {
	e := r.sequence(in.PSN)
	if info.Kind == ib.KindSelectiveAck {
		e++
	}
	return r.una != r.max && !seq.Before(e, r.una) && !seq.Before(r.max, e) && (e != r.max || info.Kind == ib.KindSelectiveAck)
}
