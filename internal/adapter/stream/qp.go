package stream

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"softrdma/internal/adapter/schedule"
	"softrdma/internal/iwarp"
	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
)

// A QP is the machine of a queue pair over iWARP: package iwarp's, which a stream
// drives while the queue pair has one.
type QP struct {
	m     *iwarp.QP
	port  *machine.Port
	recv  *queue.RecvRing // private receive queue, nil with an SRQ
	entry *schedule.Entry // of the queue pair among the lane's tasks
	on    *Stream         // nil without one

	supports atomic.Uint32 // operations of the connection, a bit each
}

var _ machine.Machine = (*QP)(nil)

// NewQP makes the machine of a queue pair.
func NewQP(p *machine.Port, recv *queue.RecvRing, entry *schedule.Entry) *QP {
	return &QP{m: iwarp.New(p), port: p, recv: recv, entry: entry}
}

// Next sends on the stream and flushes. It reports whether requests were posted since:
// their driver may not have rung the doorbell.
func (x *QP) Next(now time.Duration, _ *machine.Out) (more bool) {
	if x.on != nil {
		x.on.pump(now)
	}
	x.m.Settle(now)
	return x.port.Attr.State == qp.Err && x.port.SQ.Producer() != x.port.SQ.Consumer()
}

// Deadline is Never: the stream has its own.
func (x *QP) Deadline() time.Duration { return machine.Never }

// Expire has nothing to do.
func (x *QP) Expire(time.Duration) {}

// Capabilities implements machine.Machine: its stream does the rest.
func (x *QP) Capabilities() machine.Capabilities { return machine.Capabilities{} }

// Transition follows a change of state by the user.
func (x *QP) Transition(now time.Duration, from qp.State) {
	on := x.on
	x.m.Transition(now, from)
	if on != nil {
		on.after(now)
	}
	if x.port.Attr.State == qp.Reset {
		x.on = nil
		x.supports.Store(0)
	}
}

// setAgreement notes what both ends agreed on.
func (x *QP) setAgreement(a *iwarp.Agreement) {
	x.port.Attr.MaxRdAtomic, x.port.Attr.MaxDestRdAtomic = uint8(min(a.ORD, 255)), uint8(min(a.IRD, 255))
	var mask uint32
	for op := range queue.Op(32) {
		if x.m.Supports(op) == nil {
			mask |= 1 << op
		}
	}
	x.supports.Store(mask)
}

// Release ends the stream of a queue pair that is being destroyed in order, without
// reports to the program. The machine outlives the memory that the program posted in.
func (x *QP) Release(now time.Duration) {
	x.port.SQ.Detach()
	if x.recv != nil {
		x.recv.Detach()
	}
	x.port.SendCQ, x.port.RecvCQ, x.port.Host = discard{}, discard{}, discard{}
	if on := x.on; on != nil {
		on.leave(now)
		on.pump(now)
	}
}

// discard drops what a destroyed queue pair reports.
type discard struct{}

// Push drops a completion.
func (discard) Push(*queue.CQE) {}

// Event drops an event.
func (discard) Event(*machine.Port, machine.Event, reason.Detail) {}

// Refuse drops a refusal.
func (discard) Refuse(*machine.Port, reason.Detail) {}

// StateChanged drops a transition.
func (discard) StateChanged(*machine.Port, qp.State, reason.Detail) {}

// Supported reports whether the connection is known to have an operation. Any goroutine
// may ask.
func (x *QP) Supported(op queue.Op) bool { return op < 32 && x.supports.Load()&(1<<op) != 0 }

// Supports returns an error that wraps errors.ErrUnsupported if the transport or the
// peer does not have an operation.
func (x *QP) Supports(op queue.Op) error { return x.m.Supports(op) }

// CheckTransition checks a change from one state to another with the attributes of
// mask, and returns those that a queue pair over iWARP has. It ignores attributes that
// are InfiniBand's alone, so that programs can be the same.
func CheckTransition(from, to qp.State, mask qp.Mask) (qp.Mask, error) {
	switch {
	case to == qp.Reset, to == qp.Err && from != qp.Reset, from == to,
		from == qp.Reset && to == qp.Init, from == qp.Init && to == qp.RTR,
		from == qp.RTS && to == qp.SQD, from == qp.SQD && to == qp.RTS:
		return mask & attributes, nil
	case to == qp.RTS && (from == qp.Init || from == qp.RTR):
		// RFC 5044 7.1: full operation begins when both ends have agreed.
		return 0, fmt.Errorf("iWARP queue pair from %v to RTS: expected a connection manager to take it there (package rdmacm): %w",
			from, errors.ErrUnsupported)
	}
	return 0, &qp.TransitionError{Type: qp.RC, From: from, To: to}
}

// attributes are those that queue pairs over iWARP have.
const attributes = qp.MaskState | qp.MaskCurState | qp.MaskEnSQDAsyncNotify | qp.MaskAccess | qp.MaskPKeyIndex |
	qp.MaskPort | qp.MaskMaxRdAtomic | qp.MaskMaxDestRdAtomic
