package adapter

import (
	"time"

	"softrdma/internal/congestion"
	"softrdma/internal/machine"
	"softrdma/internal/qp"
)

// An idle stands for the machine of a queue pair that has had nothing to do yet. It
// takes no memory, so that a hundred thousand queue pairs fit. The first request or
// packet makes the machine, and so does a state that the machine acts on.
type idle struct{ q *QP }

var _ machine.Machine = idle{}

// Capabilities implements machine.Machine.
func (x idle) Capabilities() machine.Capabilities {
	return machine.Capabilities{Receiver: x, InFlight: x, Addresser: x}
}

// Receive passes the packet to the machine.
func (x idle) Receive(now time.Duration, in *machine.In) {
	x.q.begin(now)
	x.q.can.Receiver.Receive(now, in)
}

// Next makes the machine if a request was posted, and asks it for a packet.
func (x idle) Next(now time.Duration, out *machine.Out) bool {
	return x.q.SQ.Len() > 0 && x.q.begin(now).Next(now, out)
}

// Destination makes the machine if a request was posted, and asks it.
func (x idle) Destination() (path *qp.Path, qpn uint32) {
	if x.q.SQ.Len() == 0 {
		return nil, 0
	}
	x.q.begin(x.q.lane.dev.clock())
	if a := x.q.can.Addresser; a != nil {
		return a.Destination()
	}
	return nil, 0
}

// Deadline is never.
func (idle) Deadline() time.Duration { return machine.Never }

// Expire has nothing to do.
func (idle) Expire(time.Duration) {}

// InFlight returns 0: nothing was sent.
func (idle) InFlight() int64 { return 0 }

// Transition leaves the states on the way to RTS to begin.
func (x idle) Transition(now time.Duration, from qp.State) {
	to := x.q.Attr.State
	if to == qp.RTS && x.q.PeerTimeout > 0 {
		x.q.begin(now) // it has a clock to watch
		return
	}
	if to <= qp.RTS {
		return
	}
	x.q.Attr.State = from
	m := x.q.begin(now)
	x.q.Attr.State = to
	m.Transition(now, from)
}

// begin makes the machine of a queue pair in a state up to RTS, and takes it
// there.
func (q *QP) begin(now time.Duration) machine.Machine {
	q.setMachine(q.packets.makers[q.Type](&q.Port, machine.Options{
		Control: q.control, GoBackN: q.recovery == congestion.GoBackN, KeepReasons: q.packets.dev.cfg.KeepReasons,
	}))
	to := q.Attr.State
	for from := qp.Reset; from < to; from++ {
		q.Attr.State = from + 1
		q.m.Transition(now, from)
	}
	return q.m
}
