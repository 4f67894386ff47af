package rc

import (
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// This file finds out what is missing, between peers that both know of
// selective acknowledges; what is done about it is in repeat.go.

// selectiveAck takes what the peer tells of the requests that it holds.
func (r *requester) selectiveAck(now time.Duration, in *machine.In) {
	doubles, ok := ib.Duplicates(in.Payload)
	if !ok {
		r.q.refuse(reason.Detail{Reason: reason.ResponseLength, Expected: ib.SelectiveAckLen, Found: uint64(len(in.Payload))})
		return
	}
	upTo := r.sequence(in.PSN) + 1
	switch {
	case before(r.max, upTo):
		r.q.refuse(reason.Detail{Reason: reason.ResponseGhost, Expected: wire(r.max), Found: uint64(in.PSN)})
		return
	case before(upTo, r.una):
		r.q.refuse(reason.Detail{Reason: reason.ResponseStale, Expected: wire(r.una), Found: uint64(in.PSN)})
		return
	}
	r.credited(now, in.AETH.Syndrome)
	if n := doubles - r.doubles; int32(n) > 0 && r.q.answersProbe(now, upTo-1) {
		r.doubles = doubles // the probe among them
	} else if int32(n) > 0 {
		r.doubles = doubles
		r.q.refuse(reason.Detail{Reason: reason.RepeatNeedless, Expected: uint64(doubles), Found: uint64(n)})
	}
	ranges := ib.Ranges(in.Payload)
	if r.board == nil && (ranges == 0 || before(r.nxt, upTo)) {
		// Nothing is missing, or everything is being sent again already.
		r.advance(now, upTo)
		return
	}
	upTo = min32(upTo, r.nxt)
	r.open()
	r.board.done = later(r.board.done, upTo)
	r.arrived(now, r.una, upTo, true)
	at := upTo
	for i := range ranges {
		skip, count := ib.Range(in.Payload, i)
		first := at + skip
		at = first + count
		if before(r.max, at) {
			r.disown(later(first, r.max))
		}
		if !before(first, r.nxt) {
			break
		}
		r.arrived(now, first, r.nxt-uint32(max(int32(r.nxt-at), 0)), true)
	}
	r.judge(now)
}

// open begins to keep account of what is missing.
func (r *requester) open() {
	if r.board == nil {
		r.board = r.q.store.board()
		r.board.high, r.board.done, r.board.answered = r.una, r.una, r.una
	}
}

// close ends it.
func (r *requester) close() {
	if r.board == nil {
		return
	}
	put(&r.q.store.boards, r.board)
	r.board, r.lossAt, r.early = nil, machine.Never, 0
	r.scatter.Restart()
	if r.landed == 0 {
		return
	}
	for i := r.head; i != r.end; i = r.p.SQ.Next(i) {
		r.requests[i].state &^= landed
	}
	r.landed = 0
}

// find is the ring index of the request that sequence number e belongs to; the
// caller knows that there is one.
func (r *requester) find(e uint32) uint32 {
	sq := r.p.SQ
	lo, hi := 0, sq.Distance(r.head, r.end)
	for lo < hi {
		mid := (lo + hi) / 2
		if before(r.requests[r.at(mid)].last, e) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return r.at(lo)
}

// at is the ring index of the n-th request from head on.
func (r *requester) at(n int) uint32 { return (r.head + uint32(n)) & uint32(r.p.SQ.Depth()) }

// arrived takes note that the peer has the requests from first up to end: by a
// selective acknowledge it has got them, by any other answer it has executed
// them and has answered before. SENDs and WRITEs have arrived with that; of a
// READ or an atomic the answer must come.
func (r *requester) arrived(now time.Duration, first, end uint32, selective bool) {
	b := r.board
	first = later(first, r.una)
	if !before(first, end) {
		return
	}
	if i := b.index(first); !before(b.high, end) && (i == len(b.list) || !before(b.list[i].first, end)) {
		return // known already
	}
	from := first // of requests without an answer
	for i := r.find(first); i != r.end; i = r.p.SQ.Next(i) {
		w := &r.requests[i]
		if w.local() || !w.responds() && before(w.last, end) {
			continue
		}
		if !before(w.first, end) || !w.responds() {
			break
		}
		lo, hi := later(first, w.first), w.last+1
		if before(end, hi) {
			hi = end
		}
		r.acquired(now, from, lo)
		switch {
		case !selective:
			r.unanswered(now, lo, hi)
		case lo == w.first || b.executed(w):
			r.heard(now, lo, hi)
		case before(b.high, hi):
			b.open(now, hi, late) // the peer has a probe of the READ, not the READ
		}
		from = hi
	}
	r.acquired(now, from, end)
}

// acquired takes note that the peer has the SENDs and WRITEs from first up to end.
func (r *requester) acquired(now time.Duration, first, end uint32) {
	if n := r.deliver(now, first, end) * (r.mtu + overhead); n > 0 {
		r.early += n
		r.q.ctl.Acked(now, int(n), 0, &r.rtt)
	}
}

// deliver takes note that everything from first up to end has arrived, and
// returns how many sequence numbers of it are news.
func (r *requester) deliver(now time.Duration, first, end uint32) (n uint32) {
	b := r.board
	if !before(first, end) {
		return 0
	}
	if r.timing && !before(r.timed, first) && before(r.timed, end) {
		r.sample(now)
	}
	if before(b.high, end) {
		start := later(first, b.high)
		if before(b.high, start) {
			b.open(now, start, late)
		}
		n, b.high, end = end-start, end, start
	}
	if n > 0 {
		r.probes = 0
	}
	if !before(first, end) {
		return n
	}
	i, k := b.within(first, end)
	for j := i; j < k; j++ {
		n += b.list[j].end - b.list[j].first
		r.found(now, &b.list[j])
	}
	b.remove(i, k)
	return n
}

// found learns from a hole that is filled how late packets may be.
func (r *requester) found(now time.Duration, h *hole) {
	switch {
	case h.state == due:
	case h.tries == 0:
		r.learn(now - h.seen)
	case now-h.sent < r.least()*3/4:
		r.learn(now - h.seen) // too early for the repetition: this is the first one
	default:
		t := r.board.repeatedOf(h)
		*t = max(*t, h.sent)
		r.patience -= r.patience / 64
	}
}

// least is the smallest round trip that is known.
func (r *requester) least() time.Duration {
	switch {
	case !r.rtt.Known():
		return r.readRTT.Least()
	case !r.readRTT.Known():
		return r.rtt.Least()
	}
	return min(r.rtt.Least(), r.readRTT.Least())
}

// learn takes note of a packet that others overtook by so much and was not
// lost (RFC 8985, 6.2).
func (r *requester) learn(late time.Duration) {
	r.patience = max(r.patience, late*5/4)
}

// wait is how long a packet may be late before it counts as lost: a quarter of
// the round trip, or what the path has shown to take, up to a round trip.
func (r *requester) wait() time.Duration {
	least := r.least()
	if least == 0 {
		return firstWait
	}
	return min(max(r.patience, least/4), max(r.rtt.Smoothed(), r.readRTT.Smoothed()))
}

const (
	// firstWait stands for a quarter of the round trip before there is one.
	firstWait = 50 * time.Microsecond

	// slack is what answers may take longer than round trips so far: what
	// processes wait for their processors.
	slack = 200 * time.Microsecond
)

// heard takes note that the peer has a READ or an atomic: if its request was
// thought lost, it was not.
func (r *requester) heard(now time.Duration, first, end uint32) {
	b := r.board
	if before(b.high, end) {
		start := later(first, b.high)
		if before(b.high, start) {
			b.open(now, start, late)
		}
		b.open(now, end, due)
		end = start
	}
	if !before(first, end) {
		return
	}
	i, k := b.within(first, end)
	for ; i < k; i++ {
		if h := &b.list[i]; h.state != due && !h.answer {
			b.move(h, due)
		}
	}
}

// unanswered takes note that the peer has answered something behind a READ or
// an atomic: the answers to it that have not come are late.
func (r *requester) unanswered(now time.Duration, first, end uint32) {
	b := r.board
	if before(b.high, end) {
		start := later(first, b.high)
		if before(b.high, start) {
			b.open(now, start, late)
		}
		b.open(now, end, late)
	}
	i, k := b.within(first, end)
	for ; i < k; i++ {
		h := &b.list[i]
		h.answer = true
		if h.state == due {
			h.seen = now
			b.move(h, late)
		}
	}
}

// judge completes what is complete, and finds what has been late for too long.
func (r *requester) judge(now time.Duration) {
	b := r.board
	if front := b.front(); before(r.una, front) {
		r.advance(now, front)
	} else {
		r.tell(now)
		r.alive(now)
	}
	if r.board == nil || r.p.Attr.State == qp.Err {
		return
	}
	if b.nak && !before(r.una, b.nakAt) {
		b.nak = false
		if r.una == b.nakAt {
			r.refusedAt(now, b.nakAt, ib.Syndrome(b.nakSyndrome))
			return
		}
	}
	if len(b.list) == 0 && !before(r.una, b.high) {
		r.close()
		return
	}
	if len(b.list) > maxHoles {
		r.repeat(reason.Detail{Reason: reason.NAKSequence, Expected: wire(r.una), Found: wire(b.high)})
		return
	}
	r.detect(now)
}

// detect goes through the holes, and finds when to do so again.
func (r *requester) detect(now time.Duration) {
	b := r.board
	wait, ack, answer := r.wait(), r.answerTime(&r.rtt), r.answerTime(&r.readRTT)
	r.lossAt = machine.Never
	for i := range b.list {
		h := &b.list[i]
		if h.state == resent && b.overtaken(h) {
			h.seen = now
			b.move(h, late)
		}
		var at time.Duration
		switch h.state {
		case late:
			at = h.seen + wait
		case resent:
			at = h.sent + ack<<min(h.tries-1, 4)
			if h.answer {
				at += answer<<min(h.tries-1, 4) - ack<<min(h.tries-1, 4)
			}
		default:
			continue
		}
		if at > now {
			r.lossAt = min(r.lossAt, at)
			continue
		}
		b.move(h, lost)
		r.lose(now, h)
	}
}

// lose tells the control of packets that were lost.
func (r *requester) lose(now time.Duration, h *hole) {
	if r.timing && !before(r.timed, h.first) && before(r.timed, h.end) {
		r.timing = false // of which sending the answer is could not be told
	}
	n := int(h.end-h.first) * int(r.mtu+overhead)
	switch w := &r.requests[r.find(h.first)]; {
	case !w.responds():
		r.q.ctl.Lost(now, n, &r.rtt)
	case h.answer:
		r.copies = copiesPerLoss
		r.readCtl.Lost(now, n, &r.readRTT)
	default: // the request, one short packet
		r.copies = copiesPerLoss
		r.q.ctl.Lost(now, overhead, &r.rtt)
	}
}

// alive follows news that completes nothing: the peer is there, and its timer
// starts anew as long as what is missing was not repeated too often.
func (r *requester) alive(now time.Duration) {
	if len(r.board.list) > 0 && r.board.list[0].tries <= r.p.Attr.RetryCnt {
		r.arm(now)
	}
}
