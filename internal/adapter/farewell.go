package adapter

import (
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/recorder"
	"softrdma/internal/steering"
)

// An Elsewhere calls f with what is remembered of the queue pairs of the program that has a lane of a
// device's address, if one has it.
type Elsewhere func(lane int, f func(*recorder.Pairs))

// SetElsewhere tells a device's connection manager where to find the queue pairs of programs that share the
// device's address.
func (a *laneList) SetElsewhere(e Elsewhere) { a.elsewhere.Store(&e) }

// pairsOf calls f with what is remembered of a queue pair of this device or of a program.
func (a *laneList) pairsOf(qpn uint32, f func(*recorder.Pairs)) {
	if a.laneOf(qpn) != nil {
		f(&a.pairs)
	} else if e := a.elsewhere.Load(); e != nil {
		(*e)(steering.LaneOf(qpn, a.share.Of), f)
	}
}

// Why returns why a queue pair of the device, or of a program on its address, went to ERR by itself, None if it did
// not.
func (a *laneList) Why(qpn uint32) (why reason.Detail) {
	a.pairsOf(qpn, func(p *recorder.Pairs) { why = p.Why(qpn) })
	return why
}

// PeerLeft tells a queue pair why its peer ends the connection, or rejects it: what is flushed then says so.
// A failure of the peer's queue pair is one of this device's. A queue pair of a program finds it when it
// goes to ERR.
func (a *laneList) PeerLeft(qpn uint32, said reason.Detail) {
	if a.laneOf(qpn) == nil {
		a.pairsOf(qpn, func(p *recorder.Pairs) { p.Leave(qpn, said) })
		return
	}
	l := a.packetLane(qpn)
	if l == nil {
		return
	}
	l.Lock()
	defer l.Unlock()
	if q := l.qps[qpn]; q != nil {
		q.peerLeft(said)
	}
}

func (q *QP) peerLeft(said reason.Detail) {
	if q.Attr.State == qp.Reset {
		return
	}
	if _, ok := q.m.(idle); ok {
		if q.Attr.State == qp.Err {
			return
		}
		q.begin(q.lane.dev.clock())
	}
	m, ok := q.m.(interface {
		PeerSays(d reason.Detail) (first bool)
	})
	if ok && m.PeerSays(said) && said.Reason != reason.CMEnded && said.Reason != reason.CMAbandoned {
		q.lane.dev.failures.add(Failure{QPN: q.QPN, Status: queue.WRFlushErr, Own: reason.Detail{Reason: reason.Flushed}, Peer: said})
	}
}

// listen looks whether the connection manager in another process has said why the peer left. The caller has
// the lane.
func (q *QP) listen() {
	d := q.lane.dev
	if d.record == nil {
		return
	}
	if said := d.pairs.Said(q.QPN); said.Reason != reason.None {
		q.peerLeft(said)
	}
}
