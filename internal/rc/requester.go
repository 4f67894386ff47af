package rc

import (
	"math/bits"
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/psn"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/rc/conn"
	"softrdma/internal/rc/seq"
	"softrdma/internal/reason"
)

// maxInFlight is how many PSNs may be unacknowledged: half of the space, so that old and
// new ones can be told apart (IBTA 9.7.2).
const maxInFlight = 1 << (psn.Bits - 1)

// A requester turns work requests into packets and completes them. Each of its parts owns its
// state and knows the others: the sender decides what leaves, the completer acts on what the
// peer answers, the recovery finds and repeats what was lost.
type requester struct {
	sender
	completer completer
	recovery  recovery
}

// unacked is what the peer has not acknowledged: the work requests from the oldest one on, the
// sequence numbers (package seq) of their packets and what they count. The numbers are named as
// in TCP: una is the oldest unacknowledged one, nxt the next to send, max the first that was
// never sent. nxt is before max while packets are sent again.
type unacked struct {
	q *QP
	p *machine.Port

	sq       machine.SendQueue
	requests []request // by index of the ring; made with the first work request

	una, nxt, max uint32

	window window
	reads  reads

	mtu      uint32
	mtuShift uint8
}

// A sender turns work requests into packets, as far as the window, the credits and the READs in
// flight allow.
type sender struct {
	unacked
	completer *completer
	recovery  *recovery

	off  uint32 // bytes of the request at sq.Cur that were sent
	span uint32 // PSNs in flight whose requests the peer's reorder buffer holds

	credits credits
	disown  disowning

	gather memory.Cursor
}

// A completer matches what the peer answers with the requests, and completes them in the order
// of posting.
type completer struct {
	*unacked
	sender   *sender
	recovery *recovery

	failure  failure
	told     *told // nil if the peer has said nothing
	scatter  memory.Cursor
	original [conn.AtomicLen]byte // the word that an atomic brought, on its way to memory
}

// A recovery decides what is lost, from timers and from what the peer has, and sends it again.
type recovery struct {
	*unacked
	sender    *sender
	completer *completer

	retry  retry
	rnr    rnrWait
	trips  roundTrips
	loss   lossDetection
	tail   tailProbe
	copies readCopies
}

// A failure is why the request marked failed cannot be executed.
type failure struct {
	status queue.Status
	detail reason.Detail
}

// told is why the peer refuses a request, as it said last.
type told struct {
	at     uint32 // sequence number of the request
	detail reason.Detail
}

func (r *requester) init(q *QP) {
	r.connectParts(unacked{q: q, p: q.c.Port, sq: machine.NewSendQueue(q.c.Port)})
	r.recovery.stop()
}

// connectParts makes the parts know each other, without any other state.
func (r *requester) connectParts(u unacked) {
	r.sender = sender{unacked: u, completer: &r.completer, recovery: &r.recovery}
	r.completer = completer{unacked: &r.unacked, sender: &r.sender, recovery: &r.recovery}
	r.recovery = recovery{unacked: &r.unacked, sender: &r.sender, completer: &r.completer}
}

// start begins with the first PSN of the connection.
func (r *requester) start() {
	a := &r.p.Attr
	r.sq.Start()
	r.una, r.nxt, r.max = uint32(a.SQPSN), uint32(a.SQPSN), uint32(a.SQPSN)
	r.mtu = uint32(a.PathMTU)
	r.mtuShift = uint8(bits.TrailingZeros32(r.mtu))
	r.span = conn.Span(r.mtu)
	r.credits.limit = noLimit
}

func (r *requester) reset() {
	r.recovery.stop()
	r.connectParts(unacked{q: r.q, p: r.p, sq: r.sq, requests: r.requests})
	r.recovery.stop()
	r.sq.Drop()
}

// stop ends the timers and the scoreboard.
func (r *recovery) stop() {
	r.closeBoard()
	r.retry.ackAt, r.rnr.until, r.loss.at, r.tail.at = machine.Never, machine.Never, machine.Never, machine.Never
	r.tail.wanted, r.trips.timing, r.copies.due = false, false, 0
}

// next produces the next request packet. What is sent again goes first.
func (r *sender) next(now time.Duration, out *machine.Out) bool {
	if (r.recovery.copies.due > 0 || r.recovery.loss.board != nil || r.recovery.tail.wanted) && r.recovery.again(now, out) {
		return true
	}
	for r.recovery.rnr.until == machine.Never {
		if r.sq.Cur == r.sq.End && !r.fetch() {
			return false
		}
		w := &r.requests[r.sq.Cur]
		if w.state&(started|done|failed) == 0 && !r.admit(now, w) || w.state&failed != 0 {
			return false
		}
		switch {
		case w.local():
			if w.state&done == 0 && !r.local(w) {
				return false
			}
			r.forward()
			r.completer.advance(now, r.una) // completes it if nothing is before it
			continue
		case w.responds():
			return r.ask(now, w, out)
		}
		return r.segment(now, w, out)
	}
	return false
}

// again produces a packet that was sent before, out of turn.
func (r *recovery) again(now time.Duration, out *machine.Out) bool {
	if r.copies.due > 0 && r.sendCopy(out) {
		return true
	}
	if r.loss.board != nil && r.rnr.until == machine.Never && r.retransmit(now, out) {
		return true
	}
	return r.tail.wanted && r.sendTailProbe(now, out)
}

// forward moves to the request behind sq.Cur.
func (r *sender) forward() {
	r.sq.Forward()
	r.off = 0
	r.gather.Restart()
}

// rewind makes the oldest unanswered packet the next one.
func (r *sender) rewind() {
	r.nxt = r.una
	r.window.sent, r.window.sinceAckReq, r.reads.due = r.window.acked, 0, 0
	r.gather.Restart()
	r.off = 0
	for r.sq.Cur = r.sq.Head; r.sq.Cur != r.sq.End; r.sq.Forward() {
		w := &r.requests[r.sq.Cur]
		if w.local() && w.state&done != 0 || !w.local() && seq.Before(w.last, r.una) {
			continue
		}
		if !w.local() {
			r.off = (r.una - w.first) << r.mtuShift
			w.state |= repeated
		}
		return
	}
}

// admit reports whether a new message may start now.
func (r *sender) admit(now time.Duration, w *request) bool {
	if r.p.Attr.State != qp.RTS {
		return false // IBTA 10.3.1.5: in SQD only messages that were started continue
	}
	// IBTA 10.8.3.3: a fence waits for the READs and atomics before it.
	if queue.Flags(w.flags)&queue.Fence != 0 && r.reads.outstanding > 0 {
		return false
	}
	if w.takesReceive() && !r.receivable(now) {
		return false
	}
	return !w.responds() || r.mayAsk(now)
}

// local executes the local operation at sq.Cur: binding a memory window or
// invalidating a key, in the order of posting (IBTA 10.6.7, 11.4.1.1). It reports
// whether it succeeded.
func (r *sender) local(w *request) bool {
	if status, d := r.p.Local(queue.Op(w.op), r.p.SQ.At(r.sq.Cur)); status != queue.Success {
		r.completer.failLater(w, status, d)
		return false
	}
	w.state |= done
	return true
}

// account counts a packet that takes n PSNs and costs so much of the window.
func (r *sender) account(now time.Duration, w *request, n, cost uint32) {
	if w.state&started == 0 && w.takesReceive() {
		r.credits.inFlight++
	}
	w.state |= started
	r.nxt += n
	r.window.sent += cost
	if seq.Before(r.max, r.nxt) {
		r.max = r.nxt
	}
	if r.recovery.retry.ackAt == machine.Never {
		r.recovery.armAckTimer(now)
	}
}

// underWay reports whether sequence number e is that of something in flight.
func (r *unacked) underWay(e uint32) bool { return !seq.Before(e, r.una) && seq.Before(e, r.max) }

// before is the PSN before the oldest unacknowledged one.
func (r *unacked) before() psn.PSN { return psn.New(r.una - 1) }

// sequence extends a PSN of the peer to a sequence number near una.
func (r *unacked) sequence(p psn.PSN) uint32 { return seq.Near(r.una, p) }

// find is the ring index of the request that sequence number e belongs to; the caller
// knows that there is one.
func (r *unacked) find(e uint32) uint32 {
	sq := r.p.SQ
	lo, hi := 0, sq.Distance(r.sq.Head, r.sq.End)
	for lo < hi {
		mid := (lo + hi) / 2
		if seq.Before(r.requests[r.at(mid)].last, e) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return r.at(lo)
}

// at is the ring index of the n-th request from the oldest on.
func (r *unacked) at(n int) uint32 { return (r.sq.Head + uint32(n)) & uint32(r.p.SQ.Depth()) }
