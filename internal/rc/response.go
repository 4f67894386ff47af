package rc

import (
	"encoding/binary"
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/rc/conn"
	"softrdma/internal/rc/scoreboard"
	"softrdma/internal/rc/seq"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// response takes a packet that answers a READ or an atomic. It acknowledges all requests
// before it as well (IBTA 9.7.5.1.2).
func (r *completer) response(now time.Duration, e uint32, in *machine.In, info *ib.Info) {
	if r.recovery.loss.board != nil {
		r.responseAhead(now, e, in, info)
		return
	}
	if skipped := r.advance(now, e); skipped {
		switch {
		case in.Train > 1:
			r.apart(now, in)
		case r.q.c.Selective():
			r.responseAhead(now, e, in, info)
		default:
			r.recovery.impliedNAK(now, e)
		}
		return
	}
	if r.p.Attr.State == qp.Err || r.una != e || r.sq.Idle() {
		return
	}
	w := &r.requests[r.sq.Head]
	fits := info.Kind == ib.KindReadResponse && w.read() || info.Kind == ib.KindAtomicAcknowledge && w.atomic()
	// IBTA 9.9.2: the response must be one that the request can have.
	if !fits || info.Headers&ib.HasAETH != 0 && !in.AETH.Syndrome.IsACK() {
		r.badResponse(w, in.Opcode)
		return
	}
	if w.read() {
		if !r.readOpcode(w, e, uint32(in.PSNs()), info) {
			r.badResponse(w, in.Opcode)
			return
		}
		if in.Train > 1 && !in.Whole(int(r.mtu)) {
			r.mismatch(w, e, in, info)
			return
		}
		done := (e - w.first) << r.mtuShift
		if len(in.Payload) != int(min(w.length-done, uint32(in.PSNs())*r.mtu)) {
			r.mismatch(w, e, in, info)
			return
		}
		r.deliverResponse(now, e, w, in, uint64(done), in.Payload)
		return
	}
	// IBTA 9.4.5: the original value, in the host's order.
	original := r.original[:]
	binary.NativeEndian.PutUint64(original, in.AtomicAck)
	r.deliverResponse(now, e, w, in, 0, original)
}

// apart takes the packets of a train one by one.
func (r *completer) apart(now time.Duration, in *machine.In) {
	if !in.Whole(int(r.mtu)) {
		r.q.c.Refuse(reason.Detail{Reason: reason.ResponseLength, Expected: uint64(in.Train) * uint64(r.mtu), Found: uint64(len(in.Payload))})
		return
	}
	for i := range in.Train {
		if r.p.Attr.State == qp.Err {
			return
		}
		p := in.Part(i, int(r.mtu))
		p.Drop()
		r.receive(now, &p, p.Opcode.Info())
		in.TookPart(&p)
	}
}

// deliverResponse writes the data of a response at an offset of the oldest request's list, and
// completes the request with its last packet.
func (r *completer) deliverResponse(now time.Duration, e uint32, w *request, in *machine.In, offset uint64, data []byte) {
	in.Drop()
	packets := uint32(in.PSNs())
	if d := r.scatter.Scatter(r.p.Memory, r.p.PD, r.p.SQ.SGEs(r.sq.Head), offset, data); d.Reason != reason.None {
		r.fail(machine.LocalStatus(d), d)
		return
	}
	if !in.Intact() {
		r.q.c.Refuse(conn.Revoked(in))
		r.missingResponse(now, e, packets)
		return
	}
	in.Dropped = 0
	n := packets * overhead
	if w.read() {
		n += uint32(len(data))
	}
	r.una = e + packets
	r.reads.due -= n
	r.reads.brought += n
	if r.una == w.last+1 {
		r.window.acked += overhead
		r.scatter.Restart()
		r.advance(now, r.una)
	}
	if r.p.Attr.State != qp.Err {
		r.recovery.progress(now)
	}
}

// readOpcode checks the sequence of READ responses (IBTA 9.7.6). After a repeated
// request, responses may start again from where it began, or continue in the middle of the
// message, as Linux's responder does and as responses to the first request still in
// flight do. Of a softrdma peer any part may have been asked for alone.
func (r *completer) readOpcode(w *request, e, packets uint32, info *ib.Info) bool {
	if w.state&repeated != 0 && r.q.c.Selective() {
		return true
	}
	if info.Last != (e+packets == w.last+1) {
		return false
	}
	if e == w.first {
		return info.First
	}
	return !info.First || w.state&repeated != 0
}

// mismatch fails the oldest request because of a response that it cannot have.
func (r *completer) mismatch(w *request, e uint32, in *machine.In, info *ib.Info) {
	want := min(w.length-(e-w.first)<<r.mtuShift, r.mtu)
	if !w.read() || info.Kind != ib.KindReadResponse || info.Headers&ib.HasAETH != 0 && !in.AETH.Syndrome.IsACK() {
		r.badResponse(w, in.Opcode)
		return
	}
	r.fail(queue.LocLenErr, reason.Detail{Reason: reason.ResponseLength, Expected: uint64(want), Found: uint64(len(in.Payload))})
}

func (r *completer) badResponse(w *request, op ib.Opcode) {
	r.fail(queue.BadRespErr, reason.Detail{Reason: reason.ResponseOpcode, Expected: uint64(w.op), Found: uint64(op)})
}

// responseAhead takes an answer to a READ or an atomic while something before it is
// missing. Its bytes are written at once, as those of READs may arrive in any order.
func (r *completer) responseAhead(now time.Duration, e uint32, in *machine.In, info *ib.Info) {
	if !seq.Before(e, r.nxt) {
		r.q.c.Refuse(reason.Detail{Reason: reason.ResponseGap, Expected: seq.Detail(r.una), Found: seq.Detail(e)})
		return // everything is being sent again
	}
	b := r.recovery.openBoard()
	b.Executed = seq.Max(b.Executed, e)
	r.recovery.arrived(now, r.una, e, false)
	i := r.find(e)
	w := &r.requests[i]
	if !w.responds() || r.unlike(w, e, in, info) {
		if e == r.una && i == r.sq.Head {
			r.mismatch(w, e, in, info)
			return
		}
		r.q.c.Refuse(reason.Detail{Reason: reason.ResponseUnexpected, Expected: seq.Detail(r.una), Found: seq.Detail(e)})
		r.recovery.judge(now)
		return
	}
	if b.Has(e) {
		r.q.c.Refuse(reason.Detail{Reason: reason.ResponseStale, Expected: seq.Detail(r.una), Found: seq.Detail(e)})
		r.recovery.judge(now)
		return
	}
	data, off := in.Payload, (e-w.first)<<r.mtuShift
	if w.atomic() {
		binary.NativeEndian.PutUint64(r.original[:], in.AtomicAck)
		data, off = r.original[:], 0
	}
	d := r.placeAhead(i, off, data)
	switch {
	case !in.Intact():
		r.q.c.Refuse(conn.Revoked(in))
		r.missingResponse(now, e, uint32(in.PSNs()))
		return
	case d.Reason == reason.None:
		in.Dropped = 0
		r.recovery.fillHoles(now, e, e+1)
		r.passed(e + 1)
		b.Executed = seq.Max(b.Executed, w.last+1)
		n := uint32(len(in.Payload)) + overhead
		r.reads.due -= min(n, r.reads.due)
		r.reads.brought += n
	case e == r.una && i == r.sq.Head: // before its turn it stays missing
		r.fail(machine.LocalStatus(d), d)
		return
	}
	r.recovery.judge(now)
}

// responseLost takes a READ response whose payload could not be read in memory. The data is
// asked for again at once.
func (r *completer) responseLost(now time.Duration, in *machine.In, info *ib.Info) {
	e := r.sequence(in.PSN)
	if info.Kind != ib.KindReadResponse || seq.Before(e, r.una) || !seq.Before(e, r.nxt) || !r.requests[r.find(e)].read() {
		return // it answers nothing that is missing, or everything is being sent again
	}
	r.missingResponse(now, e, uint32(in.PSNs()))
}

// missingResponse acts on the loss of a response of some packets that the peer has certainly
// sent, which says that it has answered everything before.
func (r *completer) missingResponse(now time.Duration, e, packets uint32) {
	if !r.q.c.Selective() {
		r.advance(now, e)
		if r.p.Attr.State != qp.Err {
			r.recovery.impliedNAK(now, e)
		}
		return
	}
	b := r.recovery.openBoard()
	last := r.requests[r.find(e)].last
	end := seq.Min(e+packets, last+1)
	b.Executed = seq.Max(b.Executed, last+1)
	r.recovery.arrived(now, r.una, e, false)
	r.recovery.answerLate(now, e, end)
	r.passed(end)
	i, k := b.Within(e, end)
	for ; i < k; i++ {
		b.Move(&b.Holes[i], scoreboard.Lost)
	}
	r.recovery.judge(now)
}

// unlike reports whether the request cannot have such a response, whatever came before
// (IBTA 9.9.2).
func (r *completer) unlike(w *request, e uint32, in *machine.In, info *ib.Info) bool {
	if info.Headers&ib.HasAETH != 0 && !in.AETH.Syndrome.IsACK() {
		return true
	}
	if w.atomic() {
		return info.Kind != ib.KindAtomicAcknowledge
	}
	done := (e - w.first) << r.mtuShift
	return info.Kind != ib.KindReadResponse || len(in.Payload) != int(min(w.length-done, r.mtu))
}

// passed notes that the peer has answered up to sequence number end. The answers to READs
// and atomics before it have all come or are missing, so others may take their places at
// the peer.
func (r *completer) passed(end uint32) {
	from := seq.Max(r.recovery.loss.board.Answered, r.una)
	if !seq.Before(from, end) {
		return
	}
	r.recovery.loss.board.Answered = end
	for i := r.find(from); i != r.sq.End; i = r.p.SQ.Next(i) {
		w := &r.requests[i]
		if !seq.Before(w.last, end) {
			return
		}
		if w.responds() && w.state&landed == 0 {
			w.state |= landed
			r.reads.landed++
		}
	}
}
