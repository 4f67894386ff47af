package rc

import (
	"encoding/binary"
	"net/netip"
	"time"

	"softrdma/internal/congestion"
	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// burst is how many packets READ responses and requests send in turn when both
// have something to send: long enough to fill batches of equal packets, short
// enough that neither starves.
const burst = 16

// A QP is the transport half of a reliable connection's queue pair. It
// implements machine.Machine.
type QP struct {
	p    *machine.Port
	req  requester
	resp responder

	store *Store // nil without selective acknowledges
	kind  congestion.Kind
	ctl   congestion.Control
	peer  peer
	alive keepalive

	origins [origins]machine.Origin
	heard   time.Duration // the last packet from one of them
	trusted bool          // the packet being received is from one of them

	notifier machine.Notifier
	paceAt   time.Duration // the control lets data leave again

	turn        uint8 // packets of the present turn; see burst
	established bool  // EventCommEst was raised

	machine.Completions
}

var (
	_ machine.Machine            = (*QP)(nil)
	_ machine.Receiver           = (*QP)(nil)
	_ machine.Continuer          = (*QP)(nil)
	_ machine.UnreachableHandler = (*QP)(nil)
)

// A Config is what a queue pair has beside the standard. The zero value
// recovers as the standard has it, and controls congestion by the default.
type Config struct {
	// Store makes selective acknowledges possible.
	Store *Store
	// Control is the control of congestion.
	Control congestion.Kind
}

// New makes the machine of a queue pair.
func New(p *machine.Port, c Config) *QP {
	q := &QP{p: p, store: c.Store, kind: c.Control, paceAt: machine.Never, Completions: machine.NewCompletions(p)}
	q.ctl = congestion.New(q.kind, congestion.Limits{Window: p.Window, Packet: overhead})
	q.alive.at = machine.Never
	q.req.init(q)
	q.resp.init(q)
	return q
}

// Receive implements machine.Receiver.
func (q *QP) Receive(now time.Duration, in *machine.In) {
	st := q.p.Attr.State
	if st < qp.RTR || st == qp.Err {
		q.refuse(reason.Detail{Reason: reason.PacketQPState, Expected: uint64(qp.RTR), Found: uint64(st)})
		return
	}
	if !q.fromPeer(in) {
		q.refuse(reason.Detail{Reason: reason.PacketSource, Expected: tail(q.p.Attr.Path.Dst.Addr()), Found: tail(in.Src.Addr())})
		return
	}
	info := in.Opcode.Info()
	if info != nil && info.Kind == ib.KindCongestion {
		if q.notifies(in) {
			q.notified(now)
		}
		return
	}
	if info == nil || in.Opcode.Transport() != ib.RC {
		q.refuse(reason.Detail{Reason: reason.OpcodeUnsupported, Expected: uint64(ib.RC), Found: uint64(in.Opcode)})
		return
	}
	if !q.genuine(now, in, info) {
		return
	}
	if q.notifier.Look(now, in, q.p) && info.Kind == ib.KindReadResponse {
		q.req.crowded(now)
	}
	if q.trusted {
		q.met(in, info)
	}
	if isAnswer(info.Kind) {
		q.req.receive(now, in, info)
	} else {
		q.resp.receive(in, info)
	}
	q.settle()
}

// met takes note of a packet of the peer's.
func (q *QP) met(in *machine.In, info *ib.Info) {
	// IBTA 10.3.1.3, 11.6.3.1: the first packet in RTR tells that the peer is there.
	if q.p.Attr.State == qp.RTR && !q.established && q.origins[originOf(info.Kind)].Known() {
		q.established = true
		q.p.Host.Event(q.p, machine.EventCommEst, reason.Detail{})
	}
	q.meet(in, info)
}

// fromPeer tells whether a packet comes from the address that the queue pair is
// connected to.
func (q *QP) fromPeer(in *machine.In) bool {
	src, want := in.Src.Addr(), q.p.Attr.Path.Dst.Addr()
	return src == want || src.Unmap() == want.Unmap()
}

func isAnswer(k ib.Kind) bool {
	switch k {
	case ib.KindReadResponse, ib.KindAcknowledge, ib.KindAtomicAcknowledge, ib.KindSelectiveAck:
		return true
	}
	return false
}

// settle does what an error or progress may have left to do.
func (q *QP) settle() {
	switch q.p.Attr.State {
	case qp.Err:
		q.flush()
	case qp.SQD:
		q.req.drain()
	}
}

// Next implements machine.Machine.
func (q *QP) Next(now time.Duration, out *machine.Out) bool {
	if q.kind == congestion.DCQCN && !out.Whole {
		out.Longest = 0 // it paces packets
	}
	if out.Train = 0; !q.urgent(out) && !q.next(now, out) {
		return false
	}
	if q.resp.exhausted {
		q.resp.recountLater(now)
	}
	out.Selective = q.announces()
	if out.Markable = q.kind.ECN() && out.Opcode != ib.CongestionNotify; q.kind == congestion.DCQCN && !isAcknowledge(out.Opcode) {
		q.ctl.Sent(now, out.Len+overhead)
	}
	return true
}

// next produces the next packet that has to take its turn.
func (q *QP) next(now time.Duration, out *machine.Out) bool {
	if q.waits(now) {
		if q.resp.streams() {
			return false
		}
		return q.resp.owes() && q.resp.next(out)
	}
	switch q.p.Attr.State {
	case qp.RTS:
		if !q.resp.owes() {
			if q.req.next(now, out) {
				return true
			}
			q.settle() // a work request may have failed here
			return q.resp.owes() && q.resp.next(out)
		}
		if q.resp.acknowledges() {
			return q.acknowledged(now, out)
		}
		return q.both(now, out)
	case qp.SQD:
		more := q.both(now, out)
		if !more {
			q.settle()
		}
		return more
	case qp.Err:
		// What was posted since is flushed as well (IBTA 10.3.1.7).
		q.flush()
		return q.resp.owes() && q.resp.next(out)
	case qp.RTR:
		return q.resp.owes() && q.resp.next(out)
	}
	return false
}

// acknowledged lets up to burst requests go before an acknowledge, which is
// shorter than they are: answers to a message and its acknowledge leave as one
// batch. Nothing is ordered between the two directions of a connection.
func (q *QP) acknowledged(now time.Duration, out *machine.Out) bool {
	if q.turn < burst && q.req.next(now, out) {
		q.turn++
		return true
	}
	q.turn = 0
	q.settle()
	return q.resp.owes() && q.resp.next(out)
}

// both lets responses go before requests, but gives READ responses and
// requests turns of burst packets each while both have something to send.
func (q *QP) both(now time.Duration, out *machine.Out) bool {
	streaming := q.resp.streams()
	requests := streaming && q.turn >= burst
	if requests && q.req.next(now, out) {
		if q.turn++; q.turn >= 2*burst {
			q.turn = 0
		}
		return true
	}
	if q.resp.owes() && q.resp.next(out) {
		if streaming && q.turn < burst {
			q.turn++
		}
		return true
	}
	if !requests && q.req.next(now, out) {
		return true
	}
	q.settle()
	return q.resp.owes() && q.resp.next(out)
}

// Deadline implements machine.Machine.
func (q *QP) Deadline() time.Duration {
	r := &q.req
	return min(r.ackAt, r.rnrAt, r.lossAt, r.probeAt, q.paceAt, q.alive.at, q.resp.recountAt)
}

// Expire implements machine.Machine.
func (q *QP) Expire(now time.Duration) {
	if q.paceAt <= now {
		q.paceAt = machine.Never
	}
	if q.resp.recountAt <= now {
		q.resp.recount(now)
	}
	q.req.expire(now)
	if q.alive.at <= now {
		q.look(now)
	}
	q.settle()
}

// Transition implements machine.Machine.
func (q *QP) Transition(now time.Duration, from qp.State) {
	a := &q.p.Attr
	switch a.State {
	case qp.Reset:
		q.reset()
	case qp.RTR:
		q.resp.start()
	case qp.RTS:
		a.SQDraining = false
		if from == qp.RTR {
			q.req.start()
			q.ctl = congestion.New(q.kind, q.req.limits())
			q.startKeepalive(now)
		}
	case qp.SQD:
		a.SQDraining = true
		q.req.drain()
	case qp.Err:
		if from != qp.Err {
			q.req.stop()
			q.resp.stop()
		}
		q.flush()
	}
}

// reset forgets everything, the posted work requests too (IBTA 10.3.1.1).
func (q *QP) reset() {
	q.req.reset()
	q.resp.reset()
	q.Forget()
	q.established, q.turn = false, 0
	q.peer, q.notifier, q.paceAt = unmet, machine.Notifier{}, machine.Never
	q.origins, q.heard = [origins]machine.Origin{}, 0
	q.alive = keepalive{at: machine.Never}
}

// enterErr takes the queue pair to the error state by itself. The queues are
// flushed by whoever was called from outside, see settle.
func (q *QP) enterErr(d reason.Detail, s queue.Status) {
	from := q.p.Attr.State
	if from == qp.Err {
		return
	}
	q.Failed(d, s)
	q.p.Attr.State = qp.Err
	q.p.Attr.SQDraining = false
	q.req.stop()
	q.p.Host.StateChanged(q.p, from, d)
}

func (q *QP) refuse(d reason.Detail) { q.p.Host.Refuse(q.p, d) }

// flush completes all posted work requests with WR_FLUSH_ERR (IBTA 10.3.1.7,
// 10.8.3), but those of a shared receive queue.
func (q *QP) flush() {
	q.req.flush()
	q.resp.flush()
	q.LeaveShared()
}

// tail is the end of an address, as the reason PACKET_SOURCE shows it.
func tail(a netip.Addr) uint64 {
	b := a.As16()
	return uint64(binary.BigEndian.Uint32(b[12:]))
}
