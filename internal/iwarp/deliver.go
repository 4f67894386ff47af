package iwarp

import (
	"encoding/binary"
	"math"
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/iwarp"
)

// finish delivers an FPDU with a correct CRC. The last segment completes or executes the
// message.
func (r *receiver) finish(now time.Duration, h []byte) {
	op := r.seg.Opcode
	opening := r.q.silent
	r.ended(now)
	wrote := r.wrote
	r.wrote = 0
	switch {
	case op == iwarp.Write:
		r.tagged, r.taggedOp = !r.seg.Last, op
		if r.seg.Last {
			r.wrote, r.writing = r.writing, 0
		}
	case op == iwarp.ReadResponse:
		r.tagged, r.taggedOp = !r.seg.Last, op
		if r.seg.Last {
			r.q.req.answered(now)
		}
	case r.info.Control:
		r.control(now, h, wrote, opening)
	default:
		r.sent(now)
	}
}

// sent handles the end of a segment of a SEND.
func (r *receiver) sent(now time.Duration) {
	r.sending = !r.seg.Last
	if r.sending {
		return
	}
	r.msn[iwarp.QueueSend]++
	if r.swallow {
		r.swallow = false
		return
	}
	c := machine.Received{Op: queue.WCRecv, Length: uint32(r.received)}
	if r.info.Invalidate {
		d := r.p.Memory.Invalidate(r.seg.Invalidate, r.p.PD, r.p.QPN)
		if d.Reason != reason.None {
			r.q.fatal(now, iwarp.TermProtectionInvalidate, r.untagged(), fault{d, queue.RemInvReqErr, machine.EventQPAccessErr})
			return
		}
		c.Flags, c.ImmInv = queue.WCWithInv, r.seg.Invalidate
	}
	r.complete(&c)
}

// untagged rebuilds the header of the segment.
func (r *receiver) untagged() []byte {
	b := make([]byte, iwarp.UntaggedLen)
	r.seg.Put(b)
	return b
}

// complete completes the receive.
func (r *receiver) complete(m *machine.Received) {
	r.taken = false
	m.Solicited = r.info.Solicited
	r.q.done.Received(r.recv.WRID, m)
}

// finishReceive completes the receive in error.
func (r *receiver) finishReceive(s queue.Status, d reason.Detail) {
	r.taken = false
	r.q.done.ReceiveFailed(r.recv.WRID, s, d)
}

// flush completes the taken receive, and those that a private queue holds now, with
// WR_FLUSH_ERR. Receives that are posted later are flushed on the next call.
func (r *receiver) flush() {
	if r.taken {
		r.finishReceive(queue.WRFlushErr, r.q.done.Flushed())
	}
	r.q.done.FlushReceives(&r.recv, math.MaxInt)
}

// control executes a message without payload. wrote is the length of a WRITE directly before
// it.
func (r *receiver) control(now time.Duration, h []byte, wrote uint64, opening bool) {
	s := &r.seg
	if s.Opcode == iwarp.Terminate {
		var m iwarp.Termination
		m.Parse(h[iwarp.UntaggedLen:])
		r.q.req.terminated(now, &m, opening)
		return
	}
	counter := iwarp.QueueSend
	if r.info.Queue == iwarp.QueueRead {
		counter = iwarp.QueueRead
	}
	if s.Opcode == iwarp.AtomicResponse {
		r.answer(now, h)
		return
	}
	if !r.ordered(now, h, r.info.Queue, counter) || !r.single(now, h) {
		return
	}
	r.msn[counter]++
	switch s.Opcode {
	case iwarp.ReadRequest:
		r.q.rd.read(now, h)
	case iwarp.AtomicRequest:
		r.q.rd.atomic(now, h)
	default:
		r.immediate(now, h, wrote)
	}
}

// single checks that a message has one segment.
func (r *receiver) single(now time.Duration, h []byte) bool {
	s := &r.seg
	if s.MO != 0 {
		r.q.fatal(now, iwarp.TermUntaggedMO, h, invalid(reason.Detail{Reason: reason.DDPOffset, Expected: 0, Found: uint64(s.MO)}))
		return false
	}
	if !s.Last {
		r.q.fatal(now, iwarp.TermUntaggedLength, h, invalid(reason.Detail{Reason: reason.DDPLength, Expected: uint64(s.Length), Found: uint64(s.Length) + 1}))
		return false
	}
	return true
}

// immediate delivers immediate data (RFC 7306 6.3). If a WRITE came right before, the
// completion has its length, as on InfiniBand.
func (r *receiver) immediate(now time.Duration, h []byte, wrote uint64) {
	if r.sending {
		// The receive belongs to an unfinished SEND.
		r.q.fatal(now, iwarp.TermOperationOpcode, h, invalid(reason.Detail{Reason: reason.RDMAPSequence, Expected: uint64(r.sendOp), Found: uint64(r.seg.Opcode)}))
		return
	}
	if !r.take(now, h) {
		return
	}
	v := iwarp.ImmediateValue(h[iwarp.UntaggedLen:])
	r.complete(&machine.Received{Op: queue.WCRecvRDMAImm, Length: uint32(wrote), Flags: queue.WCImm, ImmInv: queue.NetworkOrder(v)})
}

// answer delivers the answer to an atomic.
func (r *receiver) answer(now time.Duration, h []byte) {
	s := &r.seg
	a := r.q.req.first()
	if a == nil || !a.atomic {
		r.q.fatal(now, iwarp.TermOperationOpcode, h, r.opcode())
		return
	}
	if s.Queue != iwarp.QueueAtomicResponse {
		r.failAnswer(now, iwarp.TermUntaggedQueue, h, queue.BadRespErr, reason.Detail{Reason: reason.DDPQueue, Expected: iwarp.QueueAtomicResponse, Found: uint64(s.Queue)})
		return
	}
	if s.MSN != r.answerMSN {
		r.failAnswer(now, iwarp.TermUntaggedMSN, h, queue.BadRespErr, reason.Detail{Reason: reason.DDPSequence, Expected: uint64(r.answerMSN), Found: uint64(s.MSN)})
		return
	}
	var m iwarp.AtomicValue
	m.Parse(h[iwarp.UntaggedLen:])
	if m.ID != a.msn || s.MO != 0 || !s.Last {
		r.failAnswer(now, iwarp.TermUntaggedMO, h, queue.BadRespErr, reason.Detail{Reason: reason.RDMAPResponse, Expected: uint64(a.msn), Found: uint64(m.ID)})
		return
	}
	r.answerMSN++
	binary.NativeEndian.PutUint64(r.value[:], m.Value)
	r.sink.Restart()
	if d := r.sink.Scatter(r.p.Memory, r.p.PD, a.sges, 0, r.value[:]); d.Reason != reason.None {
		r.failAnswer(now, iwarp.TermDDPLocal, nil, machine.LocalStatus(d), d)
		return
	}
	r.q.req.answered(now)
}
