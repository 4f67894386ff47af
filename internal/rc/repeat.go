package rc

import (
	"encoding/binary"
	"time"

	"softrdma/internal/congestion"
	"softrdma/internal/machine"
	"softrdma/internal/psn"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// repeatLost produces the first packet that counts as lost, alone: a segment of
// a SEND or WRITE, an atomic, or a READ of what is missing, which a responder
// takes for a duplicate of a part (IBTA 9.7.5.1).
func (r *requester) repeatLost(now time.Duration, out *machine.Out) bool {
	i := r.board.toRepeat()
	if i < 0 {
		return false
	}
	h := r.board.list[i]
	at := r.find(h.first)
	w := &r.requests[at]
	n := uint32(1)
	switch {
	case w.read():
		end := min32(h.end, w.last+1)
		if !r.board.executed(w) {
			// The request itself may be lost, and no part can stand for it.
			h.first, end = w.first, w.last+1
		}
		n = end - h.first
		r.askFor(w, at, h.first, n, out)
		if h.tries == 0 && !r.board.executed(w) {
			r.copyLater(w, out)
		}
	case w.atomic():
		r.askFor(w, at, h.first, 1, out)
	default:
		if f := r.flight(); f > 0 && f+int64(r.mtu+overhead) > int64(r.q.ctl.Window()) {
			return false
		}
		if !r.segmentAgain(w, at, h.first, out) {
			return false
		}
	}
	r.q.refuse(reason.Detail{Reason: reason.PacketRepeated, Expected: wire(r.una), Found: wire(h.first)})
	r.board.sentAgain(now, h.first, h.first+n, r.nxt)
	if r.board.lost == 0 {
		out.AckReq = true
	}
	if at := now + min(r.answerTime(&r.rtt), r.answerTime(&r.readRTT)); at < r.lossAt {
		r.lossAt = at
	}
	if r.ackAt == machine.Never {
		r.arm(now)
	}
	return true
}

// segmentAgain produces the packet of a SEND or WRITE that has sequence number e.
func (r *requester) segmentAgain(w *request, at, e uint32, out *machine.Out) bool {
	off := (e - w.first) << r.mtuShift
	r.gather.Restart()
	n := min(w.length-off, r.mtu)
	seg := r.shape(w, off, n)
	ok := r.fill(w, at, off, n, seg, out)
	if seg&segLast != 0 && ok {
		r.endMessage(w, at, out)
	}
	r.gather.Restart()
	out.PSN = psn.New(e)
	return ok
}

// askFor produces a request for n answers to a READ or atomic from sequence
// number e on.
func (r *requester) askFor(w *request, at, e, n uint32, out *machine.Out) {
	off := (e - w.first) << r.mtuShift
	length := uint32(0)
	w.state |= repeated
	if w.read() {
		length = min(n<<r.mtuShift, w.length-off)
	}
	r.question(w, at, off, length, out)
	out.PSN = psn.New(e)
}

// A READ whose request is lost holds up those behind it, for as long as it
// takes to find out and ask again, while a request is short beside what it
// brings. So on a path that loses packets they are sent twice, where a responder
// that knows of selective acknowledges drops the one that comes second. A
// request that may have been answered before must go without the mark.
const (
	copiesPerLoss = 200
	copyFrom      = 4 // packets that the READ brings
)

// copyLater has the READ that is being asked for asked for twice.
func (r *requester) copyLater(w *request, out *machine.Out) {
	if r.copies > 0 && w.read() && w.last-w.first >= copyFrom && r.q.selective() {
		r.copies--
		r.copying, r.copied = true, w.first
		out.Copy = true
	}
}

// copyRead produces the second request of a READ.
func (r *requester) copyRead(out *machine.Out) bool {
	r.copying = false
	if before(r.copied, r.una) || !before(r.copied, r.nxt) {
		return false
	}
	at := r.find(r.copied)
	w := &r.requests[at]
	r.question(w, at, 0, w.length, out)
	out.PSN, out.Copy = psn.New(w.first), true
	return true
}

// probe produces the last packet once more, or asks for the last answer once
// more: what comes back tells what was lost at the end, where nothing behind
// it does (RFC 8985, 7).
func (r *requester) probe(now time.Duration, out *machine.Out) bool {
	r.probing = false
	if r.una == r.nxt || r.rnrAt != machine.Never {
		return false
	}
	e := r.nxt - 1
	if b := r.board; b != nil && b.high == r.nxt && len(b.list) > 0 {
		e = b.list[len(b.list)-1].end - 1
	}
	at := r.find(e)
	w := &r.requests[at]
	switch {
	case w.local() || w.state&(started|failed) != started:
		return false
	case w.responds() && !r.q.selective():
		return false // see armProbe
	case w.responds():
		r.askFor(w, at, e, 1, out)
	case !r.segmentAgain(w, at, e, out):
		return false
	}
	out.AckReq = true
	r.timing = false
	r.q.refuse(reason.Detail{Reason: reason.TailProbe, Expected: uint64(r.probeTime().Microseconds()), Found: uint64(r.probes)})
	r.armProbe(now)
	return true
}

const probeLimit = 6 // probes without an answer; then the timeout is waited for

// probeTime is after how long without an answer the last packet is sent again.
func (r *requester) probeTime() time.Duration {
	t := &r.rtt
	if !t.Known() || r.reads > 0 && r.readRTT.Smoothed() > t.Smoothed() {
		t = &r.readRTT
	}
	return 2*t.Smoothed() + 4*t.Deviation() + slack
}

// answerTime is how long an answer takes at most, as far as is known.
func (r *requester) answerTime(t *congestion.RTT) time.Duration {
	if !t.Known() {
		return r.p.Attr.AckTimeout()/2 + slack
	}
	return t.Smoothed() + max(4*t.Deviation(), r.wait()) + slack
}

// armProbe starts the wait for a probe. Who goes back to the first packet must
// not get a part of a READ before it, and is not probed while READs are out.
func (r *requester) armProbe(now time.Duration) {
	r.probeAt = machine.Never
	if (r.rtt.Known() || r.readRTT.Known()) && r.probes < probeLimit && r.una != r.nxt && (r.reads == 0 || r.q.selective()) {
		r.probeAt = now + r.probeTime()<<r.probes
	}
}

// sample takes the time that an answer took.
func (r *requester) sample(now time.Duration) {
	r.timing = false
	took := max(now-r.timedAt, 1)
	if r.timedAgain && took < r.rtt.Least() {
		return // it was late, and came before it was sent again
	}
	if r.timedRead {
		r.readRTT.Sample(now, took)
		if r.board == nil { // otherwise it tells of what was missing, not of a queue
			r.readTook = took
		}
		return
	}
	r.rtt.Sample(now, took)
	r.took = took
}

// time begins to take the time until sequence number e is answered. When it was
// sent before, the answer must be of the last time: the peer has said that it did
// not take it.
func (r *requester) time(now time.Duration, e uint32, read bool) {
	if again := r.nxt != r.max; !r.timing && (!again || r.certain && e != r.una) {
		r.timedAgain = again
		r.timing, r.timedRead, r.timed, r.timedAt = true, read, e, now
	}
}

// ahead takes an answer to a READ or an atomic before which something is
// missing: its bytes go to their place, as those of READs may in any order.
func (r *requester) ahead(now time.Duration, e uint32, in *machine.In, info *ib.Info) {
	if !before(e, r.nxt) {
		r.q.refuse(reason.Detail{Reason: reason.ResponseGap, Expected: wire(r.una), Found: wire(e)})
		return // everything is being sent again
	}
	r.open()
	r.board.done = later(r.board.done, e)
	r.arrived(now, r.una, e, false)
	i := r.find(e)
	w := &r.requests[i]
	if !w.responds() || r.unlike(w, e, in, info) {
		if e == r.una && i == r.head {
			r.mismatch(w, e, in, info)
			return
		}
		r.q.refuse(reason.Detail{Reason: reason.ResponseUnexpected, Expected: wire(r.una), Found: wire(e)})
		r.judge(now)
		return
	}
	b := r.board
	if b.has(e) {
		r.q.refuse(reason.Detail{Reason: reason.ResponseStale, Expected: wire(r.una), Found: wire(e)})
		r.judge(now)
		return
	}
	data, off := in.Payload, (e-w.first)<<r.mtuShift
	if w.atomic() {
		binary.NativeEndian.PutUint64(r.original[:], in.AtomicAck)
		data, off = r.original[:], 0
	}
	d := r.placeAhead(i, off, data)
	switch {
	case d.Reason == reason.None:
		r.deliver(now, e, e+1)
		r.passed(e + 1)
		b.done = later(b.done, w.last+1)
		n := uint32(len(in.Payload)) + overhead
		r.due -= min(n, r.due)
		r.brought += n
	case e == r.una && i == r.head: // before its turn it stays missing
		r.fail(machine.LocalStatus(d), d)
		return
	}
	r.judge(now)
}

// unlike tells whether a response is none that the request can have, whatever
// came before (IBTA 9.9.2).
func (r *requester) unlike(w *request, e uint32, in *machine.In, info *ib.Info) bool {
	if info.Headers&ib.HasAETH != 0 && !in.AETH.Syndrome.IsACK() {
		return true
	}
	if w.atomic() {
		return info.Kind != ib.KindAtomicAcknowledge
	}
	done := (e - w.first) << r.mtuShift
	return info.Kind != ib.KindReadResponse || len(in.Payload) != int(min(w.length-done, r.mtu))
}

// passed takes note that the peer has answered up to sequence number end: of
// the READs and atomics before it the answers have all come or are missing, and
// others may take their places at the peer.
func (r *requester) passed(end uint32) {
	from := later(r.board.answered, r.una)
	if !before(from, end) {
		return
	}
	r.board.answered = end
	for i := r.find(from); i != r.end; i = r.p.SQ.Next(i) {
		w := &r.requests[i]
		if !before(w.last, end) {
			return
		}
		if w.responds() && w.state&landed == 0 {
			w.state |= landed
			r.landed++
		}
	}
}

// refuse remembers a NAK whose turn has not come: something before it is to be
// answered first.
func (b *board) refuse(e uint32, s ib.Syndrome) {
	if !b.nak || before(e, b.nakAt) {
		b.nak, b.nakAt, b.nakSyndrome = true, e, uint8(s)
	}
}
