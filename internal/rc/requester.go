package rc

import (
	"math/bits"
	"time"

	"softrdma/internal/congestion"
	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/psn"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
)

const (
	// maxInFlight is how many PSNs may be unacknowledged: half of the space,
	// so that old and new can be told apart (IBTA 9.7.2).
	maxInFlight = 1 << (psn.Bits - 1)

	// ackShare is the part of the window, one in so many, after which an
	// acknowledge is asked for before a message's end, so that the window moves
	// on within long messages. There are few, as each costs both ends a system
	// call; and however small the window is, what fills it has asked for one.
	ackShare = 4

	// Over a path longer than longTrip it is the window that bounds the rate, and a
	// quarter that has to have left before the next may move it is much of it.
	longTrip     = 250 * time.Microsecond
	longAckShare = 16

	// overhead is what a packet costs of the window beside its payload: its
	// headers, so that short messages fill the window as well.
	overhead = 64
)

// A request is what the requester remembers of a work request beside the ring:
// what it read there, which may change under it when the ring is shared with
// another process, and which PSNs the message has. The sequence numbers are
// PSNs that go on counting beyond 24 bits, so that a READ of 2^23 packets can
// be told from none; psn.New makes the PSN.
type request struct {
	first, last uint32 // sequence numbers; last is first-1 where there are no packets
	length      uint32 // of the message
	op          uint8  // queue.Op
	flags       uint8  // queue.Flags
	state       uint8  // the constants below
}

// The states of a request, as bits.
const (
	started  = 1 << iota // its first packet left
	done                 // local operation carried out
	failed               // completes in error when all before it have completed
	repeated             // READ asked for again, maybe from its middle
	landed               // READ or atomic answered but for what is missing
)

func (w *request) local() bool {
	return queue.Op(w.op) == queue.BindMW || queue.Op(w.op) == queue.LocalInv
}

// read tells whether READ responses answer the request. That of an ATOMIC WRITE
// is one without data, as if it had read nothing (IBTA A19).
func (w *request) read() bool {
	return queue.Op(w.op) == queue.Read || queue.Op(w.op) == queue.AtomicWrite
}
func (w *request) atomic() bool {
	return queue.Op(w.op) == queue.CompareSwap || queue.Op(w.op) == queue.FetchAdd
}
func (w *request) responds() bool { return w.read() || w.atomic() }

// A requester turns work requests into packets. Its completer is in
// completer.go, what it does about losses in retry.go.
type requester struct {
	q *QP
	p *machine.Port

	requests []request // by index of the ring; made with the first work request

	// Ring indices, oldest first: head is the oldest request not completed,
	// cur the one to send from, end the next one to fetch.
	head, cur, end uint32

	// Sequence numbers: una is the oldest one unacknowledged, nxt the one to
	// send next, max the first that was never sent. nxt is before max while
	// packets are sent again.
	una, nxt, max uint32

	off      uint32 // bytes of the request at cur that were sent
	mtu      uint32
	mtuShift uint8
	span     uint32 // of the peer, if it knows of selective acknowledges

	taking uint32        // messages sent and not completed that take a receive of the peer's
	room   uint32        // how many of them there may be
	tryAt  time.Duration // one is tried where room is 0

	cheap bool // to try without

	disowning bool   // the peer holds what was never sent, see disown.go
	disowned  uint32 // from here on

	reads        uint16 // READs and atomics sent and not completed
	landed       uint16 // of those, answered but for what is missing
	retries      uint8  // repetitions without progress
	rnrs         uint8  // RNR NAKs without progress
	probes       uint8  // probes without progress
	gapSeen      bool   // repeated for an implied NAK, no progress since
	probing      bool   // a probe is to be sent
	copying      bool   // the READ request at copied is to be sent a second time
	copies       uint8  // READ requests to send twice, since one was lost
	timing       bool   // timed and timedAt are set
	timedAgain   bool   // timed was sent before
	certain      bool   // what is sent again was not taken before: the peer said so
	timedRead    bool   // timed is of a READ or an atomic
	sent, acked  uint32 // what packets cost of the window; the difference is in flight
	counted      uint32 // acked as far as the control was told
	due          uint32 // what the READs and atomics in flight bring
	brought      uint32 // what they brought, as far as the control was not told
	early        uint32 // of which the control was told before acked follows
	sinceRequest uint32 // bytes since an acknowledge was asked for
	doubles      uint32 // requests that the peer got twice, as it says

	ackAt   time.Duration // the peer's answer is due (IBTA 9.7.6.1.3)
	rnrAt   time.Duration // the peer asked to wait until then
	lossAt  time.Duration // something that is late counts as lost
	probeAt time.Duration // the last packet is sent again to ask

	copied   uint32
	rtt      congestion.RTT // of acknowledges
	readRTT  congestion.RTT // of answers with data, which wait for those before them
	timed    uint32         // sequence number whose answer is timed
	timedAt  time.Duration  // when its packet left
	took     time.Duration  // the answer that was timed last, until the control was told
	readTook time.Duration
	patience time.Duration      // how late packets have come that were not lost
	stale    stale              // what was under way when it went back
	readCtl  congestion.Control // of what READs bring, made with the first
	board    *board             // what is missing, nil while nothing is

	failStatus queue.Status // of the request marked failed
	failDetail reason.Detail

	gather, scatter memory.Cursor
	original        [atomicLen]byte // that an atomic brought, on its way to memory
}

func (r *requester) init(q *QP) {
	r.q, r.p = q, q.p
	r.stop()
}

// start begins with the first PSN of the connection.
func (r *requester) start() {
	a := &r.p.Attr
	i := r.p.SQ.Consumer()
	r.head, r.cur, r.end = i, i, i
	r.una, r.nxt, r.max = uint32(a.SQPSN), uint32(a.SQPSN), uint32(a.SQPSN)
	r.mtu = uint32(a.PathMTU)
	r.span = span(r.mtu)
	r.room = unlimited
	r.mtuShift = uint8(bits.TrailingZeros32(r.mtu))
}

// stop ends the timers, and the account of what is missing.
func (r *requester) stop() {
	r.close()
	r.ackAt, r.rnrAt, r.lossAt, r.probeAt = machine.Never, machine.Never, machine.Never, machine.Never
	r.probing, r.timing, r.copying = false, false, false
}

func (r *requester) reset() {
	requests := r.requests
	r.stop()
	*r = requester{requests: requests, q: r.q, p: r.p}
	r.stop()
	sq := r.p.SQ
	sq.Release(sq.Producer())
	i := sq.Consumer()
	r.head, r.cur, r.end = i, i, i
}

// flush completes everything in the ring with WR_FLUSH_ERR.
func (r *requester) flush() {
	sq := r.p.SQ
	i, end := sq.Consumer(), sq.Producer()
	if i == end {
		return
	}
	for i != end {
		wrid, op := sq.At(i).WRID, sq.At(i).Op
		i = sq.Next(i)
		sq.Release(i) // before the completion can be seen
		r.p.SendCQ.Push(r.q.Completion(wrid, op.Completed(), queue.WRFlushErr, r.q.Flushed()))
	}
	r.head, r.cur, r.end = end, end, end
}

// drain ends the drained-to-be state once every message that was started has
// completed (IBTA 10.3.1.5).
func (r *requester) drain() {
	a := &r.p.Attr
	if !a.SQDraining || r.head != r.end && r.requests[r.head].state&(started|done|failed) != 0 {
		return
	}
	a.SQDraining = false
	r.p.Host.StateChanged(r.p, qp.SQD, reason.Detail{})
	if a.EnSQDNotify {
		r.p.Host.Event(r.p, machine.EventSQDrained, reason.Detail{})
	}
}

// next produces the next request packet.
func (r *requester) next(now time.Duration, out *machine.Out) bool {
	if r.copying && r.copyRead(out) || r.board != nil && r.rnrAt == machine.Never && r.repeatLost(now, out) ||
		r.probing && r.probe(now, out) {
		return true
	}
	for r.rnrAt == machine.Never {
		if r.cur == r.end && !r.fetch() {
			return false
		}
		w := &r.requests[r.cur]
		if w.state&(started|done|failed) == 0 && !r.admit(now, w) || w.state&failed != 0 {
			return false
		}
		switch {
		case w.local():
			if w.state&done == 0 && !r.local(w) {
				return false
			}
			r.forward()
			r.advance(now, r.una) // complete it if nothing is before it
			continue
		case w.responds():
			return r.ask(now, w, out)
		}
		return r.segment(now, w, out)
	}
	return false
}

// forward goes on to the request behind cur.
func (r *requester) forward() {
	r.cur = r.p.SQ.Next(r.cur)
	r.off = 0
	r.gather.Restart()
}

// admit tells whether a new message may start now.
func (r *requester) admit(now time.Duration, w *request) bool {
	if r.p.Attr.State != qp.RTS {
		return false // SQD: only messages that were started go on
	}
	// IBTA 10.8.3.3: a fence waits for the READs and atomics before it.
	if queue.Flags(w.flags)&queue.Fence != 0 && r.reads > 0 {
		return false
	}
	if w.takesReceive() && !r.receivable(now) {
		return false
	}
	if w.responds() {
		most := uint16(r.p.Attr.MaxRdAtomic)
		return r.reads-r.landed < most && r.reads < keepFactor*most
	}
	return true
}

// keepFactor is how many times as many READs and atomics as agreed a responder
// that knows of selective acknowledges remembers when it is asked to: those
// behind a lost one are answered, and others go on in their place.
const keepFactor = 4

// fits tells whether n PSNs and cost of the window may be added to what is in
// flight. A single packet fits into any window, and with nothing in flight so
// does a READ of any length.
func (r *requester) fits(now time.Duration, n, cost uint32) bool {
	ahead := r.nxt - r.una
	if all := ahead + n; all > r.span && (all > maxInFlight || ahead != 0 && r.reads == 0 && r.q.selective()) {
		return false
	}
	flight := r.flight()
	if flight == 0 {
		return true
	}
	free := int64(r.q.ctl.Window()) - flight - int64(cost)
	if free >= 0 && r.stale.bytes > 0 {
		free -= r.stale.left(now)
		if free < 0 {
			r.q.paceAt = min(r.q.paceAt, now+staleQuantum)
		}
	}
	return free >= 0
}

// admits tells whether the queue pairs to the peer together may have n bytes
// more in flight, on their way there or back.
func (r *requester) admits(n uint32) bool {
	return r.p.Admits(r.flight()+int64(r.due)+int64(n), r.rtt.Least())
}

// InFlight implements machine.InFlightReporter. What a peer that does not answer was sent
// counts no more: others share the path.
func (q *QP) InFlight() int64 {
	r := &q.req
	if s := q.p.Attr.State; s != qp.RTS && s != qp.SQD || r.retries > 0 || r.probes > 0 || r.rnrAt != machine.Never {
		return 0
	}
	return r.flight() + int64(r.due)
}

// flight is what is in flight: sent, not acknowledged, and neither known to have
// arrived behind something missing nor given up as lost.
func (r *requester) flight() int64 {
	f := int64(r.sent - r.acked)
	b := r.board
	if b == nil || f == 0 {
		return f
	}
	all := int64(r.nxt - r.una)
	away := int64(b.high-r.una-b.missing) + int64(b.lost)
	return f * max(all-away, 0) / all
}

// fitsDue tells whether n bytes may be added to what READs in flight bring.
// That comes as one burst to the buffer of this side's own socket, whose size is
// known: a control of its own bounds it, not the one that feels for the peer's.
// A long READ begins when half of the window is free, or its request would leave
// when nothing is under way any more.
func (r *requester) fitsDue(n uint32) bool {
	if r.readCtl == nil {
		r.readCtl = congestion.NewFetch(r.q.kind, r.limits())
	}
	return int64(r.due)+min(int64(n), int64(r.readCtl.Window()/2)) <= int64(r.readCtl.Window())
}

// crowded takes note that an answer was marked on its way: less is asked for at
// a time. The peer is notified as well, and may pace its answers, but need not.
func (r *requester) crowded(now time.Duration) {
	if r.readCtl != nil {
		r.readCtl.Notified(now, &r.readRTT)
	}
}

func (r *requester) limits() congestion.Limits {
	return congestion.Limits{Window: r.p.Window, Packet: int(r.mtu + overhead)}
}

// account accounts for a packet that takes n PSNs.
func (r *requester) account(now time.Duration, w *request, n, cost uint32) {
	if w.state&started == 0 && w.takesReceive() {
		r.taking++
	}
	w.state |= started
	r.nxt += n
	r.sent += cost
	if int32(r.nxt-r.max) > 0 {
		r.max = r.nxt
	}
	if r.ackAt == machine.Never {
		r.arm(now)
	}
}

// before is the PSN before the oldest unacknowledged one.
func (r *requester) before() psn.PSN { return psn.New(r.una - 1) }

// sequence extends a PSN of the peer to a sequence number near una.
func (r *requester) sequence(p psn.PSN) uint32 {
	return r.una + uint32(p.Sub(psn.New(r.una)))
}
