package rc

import (
	"encoding/binary"
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/psn"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// wire is a sequence number's PSN, for details.
func wire(e uint32) uint64 { return uint64(psn.New(e)) }

// response takes a packet that answers a READ or an atomic. It acknowledges
// all requests before it as well (IBTA 9.7.5.1.2).
func (r *requester) response(now time.Duration, e uint32, in *machine.In, info *ib.Info) {
	if r.board != nil {
		r.ahead(now, e, in, info)
		return
	}
	if r.advance(now, e) {
		if in.Train > 1 {
			r.apart(now, in)
		} else if r.q.selective() {
			r.ahead(now, e, in, info)
		} else {
			r.gap(now, e)
		}
		return
	}
	if r.p.Attr.State == qp.Err || r.una != e || r.head == r.end {
		return
	}
	w := &r.requests[r.head]
	fits := info.Kind == ib.KindReadResponse && w.read() || info.Kind == ib.KindAtomicAcknowledge && w.atomic()
	// IBTA 9.9.2: the response must be one that the request can have.
	if !fits || info.Headers&ib.HasAETH != 0 && !in.AETH.Syndrome.IsACK() {
		r.badResponse(w, in.Opcode)
		return
	}
	var d reason.Detail
	if w.read() {
		if !r.readOpcode(w, e, uint32(in.PSNs()), info) {
			r.badResponse(w, in.Opcode)
			return
		}
		done := (e - w.first) << r.mtuShift
		if len(in.Payload) != int(min(w.length-done, uint32(in.PSNs())*r.mtu)) {
			r.mismatch(w, e, in, info)
			return
		}
		d = r.scatter.Scatter(r.p.Memory, r.p.PD, r.p.SQ.SGEs(r.head), uint64(done), in.Payload)
	} else {
		// IBTA 9.4.5: the original value, in the host's order.
		binary.NativeEndian.PutUint64(r.original[:], in.AtomicAck)
		d = r.scatter.Scatter(r.p.Memory, r.p.PD, r.p.SQ.SGEs(r.head), 0, r.original[:])
	}
	if d.Reason != reason.None {
		r.fail(machine.LocalStatus(d), d)
		return
	}
	r.answered(now, e, w, uint32(in.PSNs()), uint32(len(in.Payload)))
}

// apart takes the packets of a train one by one.
func (r *requester) apart(now time.Duration, in *machine.In) {
	for i := range in.Train {
		if r.p.Attr.State == qp.Err {
			return
		}
		p := in.Part(i, int(r.mtu))
		r.receive(now, &p, p.Opcode.Info())
	}
}

// answered goes on behind response packets that were taken, train of them with n
// bytes.
func (r *requester) answered(now time.Duration, e uint32, w *request, train, n uint32) {
	r.una = e + train
	r.due -= n + train*overhead
	r.brought += n + train*overhead
	if r.una == w.last+1 {
		r.acked += overhead
		r.scatter.Restart()
		r.advance(now, r.una)
	}
	if r.p.Attr.State != qp.Err {
		r.progress(now)
	}
}

// readOpcode checks the sequence of READ responses (IBTA 9.7.6). Behind a
// repeated request, responses may start anew from where it began, or go on in
// the middle of the message, as Linux's responder does and as responses to the
// first request still under way do. Between peers that know of selective
// acknowledges any part may have been asked for alone.
func (r *requester) readOpcode(w *request, e, train uint32, info *ib.Info) bool {
	if w.state&repeated != 0 && r.q.selective() {
		return true
	}
	if info.Last != (e+train == w.last+1) {
		return false
	}
	if e == w.first {
		return info.First
	}
	return !info.First || w.state&repeated != 0
}

// mismatch fails the oldest request for a response that it cannot have.
func (r *requester) mismatch(w *request, e uint32, in *machine.In, info *ib.Info) {
	want := min(w.length-(e-w.first)<<r.mtuShift, r.mtu)
	if !w.read() || info.Kind != ib.KindReadResponse || info.Headers&ib.HasAETH != 0 && !in.AETH.Syndrome.IsACK() {
		r.badResponse(w, in.Opcode)
		return
	}
	r.fail(queue.LocLenErr, reason.Detail{Reason: reason.ResponseLength, Expected: uint64(want), Found: uint64(len(in.Payload))})
}

func (r *requester) badResponse(w *request, op ib.Opcode) {
	r.fail(queue.BadRespErr, reason.Detail{Reason: reason.ResponseOpcode, Expected: uint64(w.op), Found: uint64(op)})
}
