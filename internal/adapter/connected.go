package adapter

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"softrdma/internal/iwarp"
	"softrdma/internal/link"
	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
)

// A connected is the machine of a queue pair over iWARP. A stream drives it while it has
// one.
type connected struct {
	m  *iwarp.QP
	q  *QP
	on *Stream // nil without one
}

func newConnected(q *QP) *connected { return &connected{m: iwarp.New(&q.Port), q: q} }

// Next sends on the stream and flushes. It reports whether requests were posted since:
// their driver may not have rung the doorbell.
func (x *connected) Next(now time.Duration, _ *machine.Out) bool {
	if x.on != nil {
		x.on.pump(now)
	}
	x.m.Settle(now)
	return x.q.Attr.State == qp.Err && x.q.SQ.Producer() != x.q.SQ.Consumer()
}

// Deadline is Never: the stream has its own.
func (x *connected) Deadline() time.Duration { return machine.Never }

// Expire has nothing to do.
func (x *connected) Expire(time.Duration) {}

// Transition follows a change of state by the user.
func (x *connected) Transition(now time.Duration, from qp.State) {
	on := x.on
	x.m.Transition(now, from)
	if on != nil {
		on.after(now)
	}
	if x.q.Attr.State == qp.Reset {
		x.on = nil
		x.q.supports.Store(0)
	}
}

// agree records the operations that the connection supports.
func (x *connected) agree() {
	var mask uint32
	for op := range queue.Op(32) {
		if x.m.Supports(op) == nil {
			mask |= 1 << op
		}
	}
	x.q.supports.Store(mask)
}

// leave ends the stream of a queue pair that is being destroyed in order, without
// reports to the program. The machine outlives the memory that the program posted in.
func (x *connected) leave(now time.Duration) {
	x.q.SQ.Detach()
	if x.q.Recv != nil {
		x.q.Recv.Detach()
	}
	x.q.SendCQ, x.q.RecvCQ, x.q.Host = nobody{}, nobody{}, nobody{}
	if on := x.on; on != nil {
		on.part(now)
		on.pump(now)
	}
}

// nobody discards what a destroyed queue pair reports.
type nobody struct{}

// Push drops a completion.
func (nobody) Push(*queue.CQE) {}

// Event drops an event.
func (nobody) Event(*machine.Port, machine.Event, reason.Detail) {}

// Refuse drops a refusal.
func (nobody) Refuse(*machine.Port, reason.Detail) {}

// StateChanged drops a transition.
func (nobody) StateChanged(*machine.Port, qp.State, reason.Detail) {}

// Supports returns nil if an operation can be posted, and otherwise an error that wraps
// errors.ErrUnsupported: the transport or the peer does not have it.
func (q *QP) Supports(op queue.Op) error {
	if q.lane.streams == nil || op < 32 && q.supports.Load()&(1<<op) != 0 {
		return nil
	}
	q.lane.Lock()
	defer q.lane.Unlock()
	return q.m.(*connected).m.Supports(op)
}

// check returns an error if the queue pair may not go from one state to another with
// these attributes, and the attributes that apply. iWARP ignores those of InfiniBand
// alone, so that programs can be the same.
func (q *QP) check(from, to qp.State, mask qp.Mask) (qp.Mask, error) {
	if q.lane.streams == nil {
		return mask, qp.Check(q.Type, from, to, mask)
	}
	switch {
	case to == qp.Reset, to == qp.Err && from != qp.Reset, from == to,
		from == qp.Reset && to == qp.Init, from == qp.Init && to == qp.RTR,
		from == qp.RTS && to == qp.SQD, from == qp.SQD && to == qp.RTS:
		return mask & connectedMask, nil
	case to == qp.RTS && (from == qp.Init || from == qp.RTR):
		// RFC 5044 7.1: full operation begins when both ends have agreed.
		return 0, fmt.Errorf("iWARP queue pair from %v to RTS: expected a connection manager to take it there (package rdmacm): %w",
			from, errors.ErrUnsupported)
	}
	return 0, &qp.TransitionError{Type: q.Type, From: from, To: to}
}

// connectedMask are the attributes that queue pairs over iWARP have.
const connectedMask = qp.MaskState | qp.MaskCurState | qp.MaskEnSQDAsyncNotify | qp.MaskAccess | qp.MaskPKeyIndex |
	qp.MaskPort | qp.MaskMaxRdAtomic | qp.MaskMaxDestRdAtomic

// connectDetail returns why a stream could not be connected.
func connectDetail(err error, port uint16) reason.Detail {
	var f *link.Failure
	if errors.As(err, &f) {
		return f.Detail
	}
	d := reason.Detail{Reason: reason.ConnectFailed, Expected: uint64(port)}
	var no syscall.Errno
	if errors.As(err, &no) {
		d.Found = uint64(no)
		if no == syscall.ECONNREFUSED {
			d.Reason = reason.ConnectRefused
		}
	}
	return d
}
