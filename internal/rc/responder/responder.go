// Package responder is the responder of the reliable connection: it executes the peer's
// requests and produces the answers. Each request passes a chain of checks:
//
//	PSN                  responder.go; duplicate.go and ahead.go
//	opcode sequence      opcode.go
//	opcode valid for QP  opcode.go
//	XRC target           xrc.go
//	resources            resources.go and firstreceive.go: receives; history.go: READs and atomics
//	length               length.go
//	R_Key and access     rkey.go
//	execute              execute.go, atomic.go, flush.go
//	acknowledge          execute.go; what leaves is in acknowledge.go
//
// A refusal at any step is in nak.go. The step that executes a message also counts it in the
// MSN. The credit field of acknowledges is in credits.go. Acknowledges are owed, not sent:
// Next sends one packet for a batch of them. READ responses are produced one packet per Next,
// straight out of registered memory.
package responder

import (
	"math"
	"math/bits"

	"softrdma/internal/machine"
	"softrdma/internal/psn"
	"softrdma/internal/queue"
	"softrdma/internal/rc/conn"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// A Responder is the responder of one connection: the chain of checks and the execution. It is the
// highest of several layers, each of which has a subject, state of its own, and the layers below:
//
//	progress    what was executed, and the message begun
//	receiving   the receive that a message takes
//	refusals    what ends a request or the connection
//	target      the memory that requests name
//	answers     what is remembered, and what is owed
//	reordering  what is held until its turn comes
type Responder struct{ reordering }

// progress is how far the requests of a connection are executed.
type progress struct {
	c *conn.Conn
	p *machine.Port

	expected psn.PSN // ePSN, the PSN of the next new request
	latest   psn.PSN // of the last request executed; a READ has more behind it
	msn      psn.PSN // messages completed (IBTA 9.7.7)
	mtu      uint32
	shift    uint8 // 1<<shift is mtu

	message ib.Kind   // of the message begun: SEND, WRITE or none
	opcode  ib.Opcode // of the last request executed, for details
}

// Init prepares a responder. The store may be nil: then nothing is held.
func (r *Responder) Init(c *conn.Conn, s *Store) {
	r.c, r.p, r.store = c, c.Port, s
	r.history.current, r.posted.at, r.first.at = noResource, machine.Never, machine.Never
}

// Start begins with the first PSN of the connection.
func (r *Responder) Start() {
	r.expected = r.p.Attr.RQPSN
	r.latest = r.expected.Add(-1)
	r.mtu = uint32(r.p.Attr.PathMTU)
	r.shift = uint8(bits.TrailingZeros32(r.mtu))
}

// Stop drops all answers that are owed.
func (r *Responder) Stop() {
	r.nak.due, r.ack.due = false, false
	r.posted.exhausted, r.posted.at = false, machine.Never
	r.endFirst()
	r.DropHeld()
	r.narrow()
	r.endKept()
	r.write.region, r.known = nil, nil
	r.history.drop()
}

// Reset forgets everything, the posted receives too (IBTA 10.3.1.1).
func (r *Responder) Reset() {
	r.DropHeld()
	r.narrow()
	r.endKept()
	c, store, list := r.c, r.store, r.recv.SGEs[:0]
	*r = Responder{}
	r.recv.SGEs = list
	r.Init(c, store)
	r.p.DropReceives(&r.recv)
}

// Flush completes the receive that was taken, and those that a private queue holds now,
// with WR_FLUSH_ERR. Receives that are posted later are flushed on the next call.
func (r *Responder) Flush() {
	r.DropHeld()
	if r.taken {
		r.failReceive(queue.WRFlushErr, r.c.Done.Flushed())
	}
	r.c.Done.FlushReceives(&r.recv, math.MaxInt)
}

// Expected is the PSN of the next new request.
func (s *progress) Expected() psn.PSN { return s.expected }

// Due reports whether a PSN is due: that of the next request, of the last one, which a
// peer that missed the answer repeats, or the one right before the next, which is that of
// a keep-alive probe.
func (s *progress) Due(p psn.PSN) bool {
	return p == s.expected || p == s.latest || p.Next() == s.expected
}

// Holds reports whether anything is held that the store lends.
func (r *Responder) Holds() bool { return r.held != nil || r.parts != nil }

// Receive takes a request through the first step of the chain (IBTA 9.7.4, 9.9.3), the
// PSN. Each step answers for its own refusals.
func (r *Responder) Receive(in *machine.In, info *ib.Info) {
	if info.Kind == ib.KindCongestion || info.Kind == ib.KindNone {
		return
	}
	if in.Disown && r.held != nil && r.c.Trusted {
		r.disown(in)
	}
	d := in.PSN.Sub(r.expected)
	switch {
	case d != 0 && in.Train > 1:
		r.eachPart(in, info)
	case d < 0 && in.Copy:
		// The first one of two came.
	case d < 0:
		r.duplicate(in, info)
	case d > 0:
		r.ahead(in, info, d)
	default:
		r.process(in, info)
		if r.held != nil && !r.first.on {
			r.resume(in)
		}
	}
	if r.counted != 0 && !r.first.on {
		in.Dropped, r.counted = in.Dropped+r.counted, 0
	}
}

// eachPart receives the packets of a train one by one.
func (r *Responder) eachPart(in *machine.In, info *ib.Info) {
	if d := r.checkSegment(in, info, uint32(len(in.Payload))); d.Reason != reason.None {
		r.c.Refuse(d)
		return
	}
	for i := range in.Train {
		p := in.Part(i, int(r.mtu))
		p.Drop()
		r.Receive(&p, p.Opcode.Info())
		in.TookPart(&p)
	}
}

// process takes the expected request through the rest of the chain.
func (r *Responder) process(in *machine.In, info *ib.Info) {
	r.nak = nak{}
	ok := r.permitted(in) &&
		r.checkSequence(in, info) &&
		r.checkOpcode(in, info) &&
		r.aim(in, info) &&
		r.takeResources(in, info) &&
		r.checkLength(in, info) &&
		r.checkKey(in, info)
	if ok {
		r.execute(in, info)
	}
}
