package rc

import (
	"math"
	"math/bits"

	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/psn"
	"softrdma/internal/queue"
	"softrdma/internal/rc/reorder"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// A responder executes the peer's requests. Each request passes a chain of checks, one
// file each:
//
//	PSN                  responder.go, duplicate.go, ahead.go
//	opcode sequence      opcode.go
//	opcode valid for QP  opcode.go
//	resources            resources.go
//	length               length.go
//	R_Key and access     rkey.go
//	execute              execute.go, atomic.go
//	acknowledge          execute.go; what leaves is in acknowledge.go
type responder struct {
	q *QP
	p *machine.Port

	expected psn.PSN // ePSN, the PSN of the next new request
	latest   psn.PSN // of the last request executed; a READ has more behind it
	msn      psn.PSN // messages completed (IBTA 9.7.7)
	mtu      uint32
	shift    uint8 // 1<<shift is mtu

	message ib.Kind   // of the message begun: SEND, WRITE or none
	opcode  ib.Opcode // of the last request executed, for details

	recv     machine.Receive
	taken    bool // recv was taken and not completed
	cursor   memory.Cursor
	received uint64 // bytes of the SEND placed

	write write
	known *memory.Region // the region used last, to save a lookup

	history  history      // READs and atomics, see history.go
	parts    []resource   // parts of READs to be answered once more
	response lastResponse // the last READ response

	nak nak
	ack ack

	// Between softrdma peers:
	sack   sack
	held   *reorder.Buffer // requests behind a lost one, nil without
	posted announcement
}

// A write is the WRITE that is being received.
type write struct {
	addr   uint64 // where the next byte goes
	left   uint32 // bytes to come
	total  uint32
	region *memory.Region // nil for a message of no bytes
}

func (r *responder) init(q *QP) {
	r.q, r.p = q, q.p
	r.history.current, r.posted.at = none, machine.Never
}

// start begins with the first PSN of the connection.
func (r *responder) start() {
	r.expected = r.p.Attr.RQPSN
	r.latest = r.expected.Add(-1)
	r.mtu = uint32(r.p.Attr.PathMTU)
	r.shift = uint8(bits.TrailingZeros32(r.mtu))
}

// stop drops all answers that are owed.
func (r *responder) stop() {
	r.nak.due, r.ack.due = false, false
	r.posted.exhausted, r.posted.at = false, machine.Never
	r.dropHeld()
	r.write.region, r.known = nil, nil
	r.history.drop()
}

func (r *responder) reset() {
	r.dropHeld()
	*r = responder{q: r.q, p: r.p, recv: machine.Receive{SGEs: r.recv.SGEs[:0]}}
	r.init(r.q)
	r.p.DropReceives(&r.recv)
}

// flush completes the receive that was taken, and those that a private queue holds now,
// with WR_FLUSH_ERR. Receives that are posted later are flushed on the next call.
func (r *responder) flush() {
	r.dropHeld()
	if r.taken {
		r.failReceive(queue.WRFlushErr, r.q.done.Flushed())
	}
	r.q.done.FlushReceives(&r.recv, math.MaxInt)
}

// failReceive completes the receive that was taken in error.
func (r *responder) failReceive(s queue.Status, d reason.Detail) {
	r.taken = false
	r.q.done.ReceiveFailed(r.recv.WRID, s, d)
}

// receive takes a request through the first step of the chain (IBTA 9.7.4, 9.9.3), the
// PSN. Each step answers for its own refusals.
func (r *responder) receive(in *machine.In, info *ib.Info) {
	if info.Kind == ib.KindCongestion || info.Kind == ib.KindNone {
		return
	}
	if in.Disown && r.held != nil && r.q.trusted {
		r.disown(in)
	}
	switch d := in.PSN.Sub(r.expected); {
	case d != 0 && in.Train > 1:
		for i := range in.Train {
			p := in.Part(i, int(r.mtu))
			r.receive(&p, p.Opcode.Info())
		}
	case d < 0 && in.Copy:
		// The first one of two came.
	case d < 0:
		r.duplicate(in, info)
	case d > 0:
		r.ahead(in, info, d)
	default:
		r.process(in, info)
		if r.held != nil {
			r.resume()
		}
	}
}

// process takes the expected request through the rest of the chain.
func (r *responder) process(in *machine.In, info *ib.Info) {
	r.nak = nak{}
	ok := r.checkSequence(in, info) &&
		r.checkOpcode(in, info) &&
		r.takeResources(in, info) &&
		r.checkLength(in, info) &&
		r.checkKey(in, info)
	if ok {
		r.execute(in, info)
	}
}
