package iwarp

import (
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/iwarp"
)

// local returns an error of this end's memory.
func local(d reason.Detail) fault {
	return fault{d, machine.LocalStatus(d), machine.EventQPReqErr}
}

// prefix checks the start of a segment, in the order of Linux's siw: both versions, the
// opcode, the length. It returns how many bytes come before payload. The Terminate of an
// unreadable segment has no header (RFC 5040 4.8).
func (r *receiver) prefix(now time.Duration, h []byte) (need int, ok bool) {
	s := &r.seg
	s.ParsePrefix(h)
	var t iwarp.Term
	var f fault
	r.info = s.Opcode.Info()
	switch i := r.info; {
	case s.DDPVersion != iwarp.DDPVersion:
		t = iwarp.TermUntaggedVersion
		if s.Tagged {
			t = iwarp.TermTaggedVersion
		}
		f = invalid(reason.Detail{Reason: reason.DDPVersion, Expected: iwarp.DDPVersion, Found: uint64(s.DDPVersion)})
	case s.RDMAPVersion != iwarp.RDMAPVersion:
		t = iwarp.TermOperationVersion
		f = invalid(reason.Detail{Reason: reason.RDMAPVersion, Expected: iwarp.RDMAPVersion, Found: uint64(s.RDMAPVersion)})
	case i == nil || i.Tagged != s.Tagged || i.Extension && !r.q.a.Extensions:
		t, f = iwarp.TermOperationOpcode, r.opcode()
	case int(s.Length)+iwarp.LengthLen < i.Fixed:
		t = iwarp.TermMPAMarker
		f = broken(reason.Detail{Reason: reason.MPALength, Expected: uint64(i.Fixed - iwarp.LengthLen), Found: uint64(s.Length)})
	case i.Control && int(s.Length)+iwarp.LengthLen > r.longest():
		t = iwarp.TermUntaggedLength
		f = invalid(reason.Detail{Reason: reason.DDPLength, Expected: uint64(i.Fixed - iwarp.LengthLen), Found: uint64(s.Length)})
	case i.Control:
		return int(s.Length) + iwarp.LengthLen, true
	default:
		return i.Fixed, true
	}
	r.q.fatal(now, t, nil, f)
	return 0, false
}

// longest is the maximum length of a message without payload.
func (r *receiver) longest() int {
	if r.seg.Opcode == iwarp.Terminate {
		return iwarp.MaxTerminate
	}
	return r.info.Fixed
}

// opcode returns the fault of a forbidden message.
func (r *receiver) opcode() fault {
	known := uint64(iwarp.Immediate)
	if r.q.a.Extensions {
		known = uint64(iwarp.Opcodes)
	}
	return invalid(reason.Detail{Reason: reason.RDMAPOpcode, Expected: known, Found: uint64(r.seg.Opcode)})
}

// begin checks the headers of a segment and finds the place of its payload. It reports false
// if the connection has ended, or the segment has to wait.
func (r *receiver) begin(now time.Duration, h []byte) bool {
	s := &r.seg
	s.Parse(h)
	r.left = int(s.Length) + iwarp.LengthLen - len(h)
	r.target = toNowhere
	if r.info.Control {
		return !r.immediateIsNext() || !r.lacks(now)
	}
	if s.Tagged {
		// RFC 5041 5.3: no segment of another message comes between those of one.
		if r.tagged && r.taggedOp != s.Opcode {
			r.q.fatal(now, iwarp.TermOperationOpcode, h, invalid(reason.Detail{Reason: reason.RDMAPSequence, Expected: uint64(r.taggedOp), Found: uint64(s.Opcode)}))
			return false
		}
		if s.Opcode == iwarp.ReadResponse {
			return r.beginAnswer(now, h)
		}
		return r.beginWrite(now, h)
	}
	return r.beginSend(now, h)
}

// beginWrite checks the STag of a WRITE, separately for each segment: the sender decides where
// the segments of a message are placed. Without payload there is nothing to check (RFC 5041
// 5.2); RFC 6581 begins connections with such a WRITE.
func (r *receiver) beginWrite(now time.Duration, h []byte) bool {
	if r.left == 0 {
		return true
	}
	s := &r.seg
	var d reason.Detail
	if a := r.p.Attr.Access; a&qp.RemoteWrite == 0 {
		d = reason.Detail{Reason: reason.QPAccess, Expected: uint64(qp.RemoteWrite), Found: uint64(a)}
	} else {
		r.region, d = r.find(s.STag, s.TO, uint64(r.left), qp.RemoteWrite)
	}
	if d.Reason != reason.None {
		r.q.fatal(now, taggedTerm(d, s.TO+uint64(r.left) < s.TO), h, denied(d))
		return false
	}
	r.addr, r.target = s.TO, toRegion
	r.writing += uint64(r.left)
	return true
}

// beginSend checks the order of a SEND, and takes a receive for a new one.
func (r *receiver) beginSend(now time.Duration, h []byte) bool {
	s := &r.seg
	if !r.ordered(now, h, iwarp.QueueSend, iwarp.QueueSend) {
		return false
	}
	switch {
	case !r.sending:
		if r.ready() {
			r.swallow, r.received = true, 0
			break
		}
		if r.lacks(now) || !r.take(now, h) {
			return false
		}
		r.sendOp = s.Opcode
	case r.sendOp != s.Opcode:
		r.q.fatal(now, iwarp.TermOperationOpcode, h, invalid(reason.Detail{Reason: reason.RDMAPSequence, Expected: uint64(r.sendOp), Found: uint64(s.Opcode)}))
		return false
	}
	if uint64(s.MO) != r.received {
		r.q.fatal(now, iwarp.TermUntaggedMO, h, invalid(reason.Detail{Reason: reason.DDPOffset, Expected: r.received, Found: uint64(s.MO)}))
		return false
	}
	if got := r.received + uint64(r.left); !r.swallow && got > r.recv.Length {
		// RFC 5041 7.2; Linux's siw reports that there is no buffer instead.
		r.q.fatal(now, iwarp.TermUntaggedLength, h, fault{
			reason.Detail{Reason: reason.ReceiveTooSmall, Expected: r.recv.Length, Found: got}, queue.LocLenErr, machine.EventQPReqErr,
		})
		return false
	}
	r.target = toReceive
	return true
}

// immediateIsNext reports whether the segment is immediate data that consumes a receive.
func (r *receiver) immediateIsNext() bool {
	s := &r.seg
	return (s.Opcode == iwarp.Immediate || s.Opcode == iwarp.ImmediateSE) && s.Queue == iwarp.QueueSend && s.MSN == r.msn[iwarp.QueueSend] && !r.sending
}

// ready reports whether a SEND is the frame that begins a peer-to-peer connection. It consumes
// no receive, because the program does not know of it.
func (r *receiver) ready() bool {
	return r.q.silent && r.q.a.PeerToPeer && r.q.a.RTR == iwarp.RTRSend && r.left == 0 && r.seg.Last && r.seg.Opcode == iwarp.Send
}

// ordered checks the queue and the sequence number of an untagged segment (RFC 5041 7.1, 7.2).
// TCP neither loses nor reorders, so the number must be the next one. counter is its index.
func (r *receiver) ordered(now time.Duration, h []byte, queue uint32, counter int) bool {
	s := &r.seg
	if s.Queue != queue {
		r.q.fatal(now, iwarp.TermUntaggedQueue, h, invalid(reason.Detail{Reason: reason.DDPQueue, Expected: uint64(queue), Found: uint64(s.Queue)}))
		return false
	}
	if want := r.msn[counter]; s.MSN != want {
		r.q.fatal(now, iwarp.TermUntaggedMSN, h, invalid(reason.Detail{Reason: reason.DDPSequence, Expected: uint64(want), Found: uint64(s.MSN)}))
		return false
	}
	return true
}

// take takes a receive for a new message.
func (r *receiver) take(now time.Duration, h []byte) bool {
	if r.p.RQ == nil || !r.p.RQ.Take(&r.recv) {
		// iWARP has no NAK after which the sender retries, and the stream has already waited.
		r.q.fatal(now, iwarp.TermUntaggedBuffer, h, fault{
			reason.Detail{Reason: reason.DDPNoBuffer, Expected: uint64(r.seg.MSN), Found: 0}, queue.LocQPOpErr, machine.EventQPFatal,
		})
		return false
	}
	r.taken, r.received = true, 0
	r.cursor.Restart()
	return true
}

// beginAnswer checks that a READ response belongs to the oldest READ, and continues where the
// previous one ended.
func (r *receiver) beginAnswer(now time.Duration, h []byte) bool {
	s := &r.seg
	a := r.q.req.first()
	if a == nil || a.atomic {
		r.q.fatal(now, iwarp.TermOperationOpcode, h, r.opcode())
		return false
	}
	left := uint64(a.length - a.pos)
	n := uint64(r.left)
	switch {
	case s.STag != a.stag:
		r.failAnswer(now, iwarp.TermTaggedSTag, h, queue.BadRespErr, reason.Detail{Reason: reason.RDMAPResponse, Expected: uint64(a.stag), Found: uint64(s.STag)})
	case s.TO != a.to+uint64(a.pos):
		r.failAnswer(now, iwarp.TermTaggedBounds, h, queue.BadRespErr, reason.Detail{Reason: reason.RDMAPResponse, Expected: a.to + uint64(a.pos), Found: s.TO})
	case n > left || s.Last && n < left:
		r.failAnswer(now, iwarp.TermTaggedBounds, h, queue.LocLenErr, reason.Detail{Reason: reason.ResponseLength, Expected: left, Found: n})
	default:
		if a.pos == 0 {
			r.sink.Restart()
		}
		r.target = toAsk
		return true
	}
	return false
}

// failAnswer ends the connection because of a wrong answer: the READ or atomic fails.
func (r *receiver) failAnswer(now time.Duration, t iwarp.Term, h []byte, status queue.Status, d reason.Detail) {
	req := &r.q.req
	a := req.first()
	if a.req == noRequest {
		r.q.fatal(now, t, h, invalid(d))
		return
	}
	req.failAt(now, a.req, status, d, func() { r.q.terminate(now, t, h, d, status) })
}
