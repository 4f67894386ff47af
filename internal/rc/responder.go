package rc

import (
	"math/bits"
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/psn"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// A responder executes the peer's requests. What it answers is in respond.go,
// what it remembers of READs and atomics in resources.go.
type responder struct {
	q *QP
	p *machine.Port

	expected psn.PSN // ePSN, the PSN of the next new request
	latest   psn.PSN // of the last request executed; READs have more behind it
	msn      psn.PSN // messages completed (IBTA 9.7.7)
	mtu      uint32
	shift    uint8 // 1<<shift is mtu

	message ib.Kind   // of the message begun: SEND, WRITE or none
	opcode  ib.Opcode // of the last request executed, for details

	// Of a SEND, and of a WRITE with immediate data at its end.
	recv     machine.Receive
	taken    bool // recv is a request that was taken and not completed
	cursor   memory.Cursor
	received uint64 // bytes of the SEND placed

	// Of a WRITE.
	addr   uint64 // where the next byte goes
	left   uint32 // bytes to come
	total  uint32
	region *memory.Region // nil for a message of no bytes
	known  *memory.Region // the region used last: saves looking it up

	// Answers owed, in the order in which they go out: READ responses and
	// atomic acknowledges by PSN, then a NAK or else one acknowledge.
	ring     []resource // see resources.go
	newest   int        // index behind the youngest resource
	held     int
	pending  int // resources with an answer to send
	current  int // resource being answered, -1 when to be found
	nak      bool
	ack      bool
	silent   bool        // a NAK was sent: nothing more until the expected PSN comes
	syndrome ib.Syndrome // of the NAK
	nakPSN   psn.PSN
	ackPSN   psn.PSN

	responded    bool    // a READ response was sent
	answeredUpTo psn.PSN // behind the last one

	// Between peers that know of selective acknowledges:
	tell     bool    // a selective acknowledge is owed
	notReady bool    // an RNR NAK was sent: nothing is held until the expected PSN comes
	short    [4]byte // of a selective acknowledge without ranges
	doubles  uint32  // requests that came twice

	exhausted   bool          // the peer was just told that no receive is posted
	recountAt   time.Duration // for receives posted since
	recountWait time.Duration
	order       *reorder   // requests behind a lost one, nil without
	parts       []resource // parts of READs to be answered once more
}

func (r *responder) init(q *QP) {
	r.q, r.p = q, q.p
	r.current, r.recountAt = -1, machine.Never
}

// start begins with the first PSN of the connection.
func (r *responder) start() {
	r.expected = r.p.Attr.RQPSN
	r.latest = r.expected.Add(-1)
	r.mtu = uint32(r.p.Attr.PathMTU)
	r.shift = uint8(bits.TrailingZeros32(r.mtu))
}

// stop drops all that is owed.
func (r *responder) stop() {
	r.pending, r.current = 0, -1
	r.nak, r.ack = false, false
	r.exhausted, r.recountAt = false, machine.Never
	r.forget()
	r.region, r.known = nil, nil
	for i := range r.ring {
		r.ring[i].pending, r.ring[i].region = false, nil
	}
}

func (r *responder) reset() {
	sges := r.recv.SGEs[:0]
	r.forget()
	*r = responder{q: r.q, p: r.p, current: -1, recountAt: machine.Never}
	r.recv.SGEs = sges
	if r.p.RQ != nil && !r.p.RQ.Shared() {
		for n := r.p.RQ.Len(); n > 0 && r.p.RQ.Take(&r.recv); n-- {
		}
	}
}

// flush completes the receive that was taken, and those that a private queue has
// now: what is posted later is flushed by whoever is called then.
func (r *responder) flush() {
	r.forget()
	if r.taken {
		r.finish(queue.WRFlushErr, r.q.Flushed())
	}
	if r.p.RQ == nil || r.p.RQ.Shared() {
		return
	}
	for n := r.p.RQ.Len(); n > 0 && r.p.RQ.Take(&r.recv); n-- {
		r.finish(queue.WRFlushErr, r.q.Flushed())
	}
}

// finish completes the receive in error.
func (r *responder) finish(s queue.Status, d reason.Detail) {
	r.taken = false
	r.p.RecvCQ.Push(r.q.Completion(r.recv.WRID, queue.WCRecv, s, d))
}

// receive takes a request through the chain of IBTA 9.7.4 and 9.9.3. Each step
// answers for its own refusals.
func (r *responder) receive(in *machine.In, info *ib.Info) {
	if info.Kind == ib.KindCongestion || info.Kind == ib.KindNone {
		return
	}
	if in.Disown && r.order != nil && r.q.trusted {
		r.disown(in)
	}
	// PSN
	switch d := in.PSN.Sub(r.expected); {
	case d != 0 && in.Train > 1:
		for i := range in.Train {
			p := in.Part(i, int(r.mtu))
			r.receive(&p, p.Opcode.Info())
		}
		return
	case d < 0 && in.Copy:
		return // the first one came
	case d > 0:
		if !r.hold(in, info, d) {
			r.ahead(in)
		}
		return
	case d < 0:
		r.duplicate(in, info)
		return
	}
	r.carryOut(in, info)
	if r.order != nil {
		r.resume()
	}
}

// carryOut takes the expected request through the rest of the chain.
func (r *responder) carryOut(in *machine.In, info *ib.Info) {
	r.silent, r.notReady, r.nak = false, false, false
	if !r.inSequence(in, info) || !r.allowed(in, info) || !r.provide(in, info) ||
		!r.measure(in, info) || !r.permit(in, info) {
		return
	}
	r.execute(in, info)
}

// ahead answers a request behind a lost one (IBTA 9.7.5.2, class B): one NAK, then
// silence until the expected request comes.
func (r *responder) ahead(in *machine.In) {
	r.q.refuse(reason.Detail{Reason: reason.SequenceAhead, Expected: uint64(r.expected), Found: uint64(in.PSN)})
	if r.silent {
		return
	}
	r.silent = true
	r.reject(ib.NAKSequence)
}

// reject owes a NAK at the expected PSN.
func (r *responder) reject(s ib.Syndrome) {
	r.nak, r.syndrome, r.nakPSN = true, s, r.expected
}

// inSequence checks the opcode sequence (IBTA 9.7.4.1.2).
func (r *responder) inSequence(in *machine.In, info *ib.Info) bool {
	if r.message == ib.KindNone && info.First || r.message == info.Kind && !info.First {
		return true
	}
	r.invalid(reason.Detail{Reason: reason.OpcodeSequence, Expected: uint64(r.opcode), Found: uint64(in.Opcode)})
	return false
}

// allowed checks what the queue pair allows its peer (IBTA 9.7.4.1.3, 11.2.5.2).
func (r *responder) allowed(in *machine.In, info *ib.Info) bool {
	need := rights(info.Kind)
	if r.p.Attr.Access&need == need {
		return true
	}
	r.invalid(reason.Detail{Reason: reason.QPAccess, Expected: uint64(need), Found: uint64(r.p.Attr.Access)})
	return false
}

// rights is what a kind of request needs, of the queue pair and of the memory.
func rights(k ib.Kind) qp.Access {
	switch k {
	case ib.KindWrite, ib.KindAtomicWrite:
		return qp.RemoteWrite
	case ib.KindReadRequest:
		return qp.RemoteRead
	case ib.KindCompareSwap, ib.KindFetchAdd:
		return qp.RemoteAtomic
	}
	return 0
}

// provide gets the resources that the request needs: a receive, or a place to
// remember a READ or atomic in (IBTA 9.7.4.1.4).
func (r *responder) provide(in *machine.In, info *ib.Info) bool {
	switch info.Kind {
	case ib.KindSend:
		if !info.First {
			return true
		}
	case ib.KindWrite:
		if info.Headers&ib.HasImmDt == 0 {
			return true
		}
	default:
		if r.vacant(in.Keep) {
			return true
		}
		depth := uint64(r.p.Attr.MaxDestRdAtomic)
		r.invalid(reason.Detail{Reason: reason.TooManyReads, Expected: depth, Found: depth + 1})
		return false
	}
	if r.p.RQ != nil && r.p.RQ.Take(&r.recv) {
		r.taken = true
		return true
	}
	// IBTA 9.7.5.2.8: the RNR NAK leaves ePSN unchanged.
	r.q.refuse(reason.Detail{Reason: reason.NoReceive, Expected: uint64(r.p.Attr.MinRNRTimer), Found: uint64(r.msn)})
	r.silent, r.notReady = true, true
	r.reject(ib.RNRNAK | ib.Syndrome(r.p.Attr.MinRNRTimer&0x1f))
	return false
}

// measure checks the payload against MTU, RETH and receive (IBTA 9.7.4.1.6,
// C9-92, C9-94).
func (r *responder) measure(in *machine.In, info *ib.Info) bool {
	n, full := uint32(len(in.Payload)), r.mtu*uint32(in.PSNs())
	switch {
	case n > full:
		r.invalid(reason.Detail{Reason: reason.LengthMTU, Expected: uint64(full), Found: uint64(n)})
		return false
	case !info.Last && n != full:
		r.invalid(reason.Detail{Reason: reason.LengthShortSegment, Expected: uint64(full), Found: uint64(n)})
		return false
	case info.Last && (!info.First || in.Train > 1) && n <= full-r.mtu:
		r.invalid(reason.Detail{Reason: reason.LengthShortSegment, Expected: uint64(full-r.mtu) + 1, Found: uint64(n)})
		return false
	case info.Headers&ib.HasRETH != 0 && in.RETH.Length > machine.MaxMessage:
		r.invalid(reason.Detail{Reason: reason.LengthLimit, Expected: machine.MaxMessage, Found: uint64(in.RETH.Length)})
		return false
	}
	switch info.Kind {
	case ib.KindSend:
		if info.First {
			r.received = 0
			r.cursor.Restart()
		}
		if got := r.received + uint64(n); got > r.recv.Length {
			d := reason.Detail{Reason: reason.ReceiveTooSmall, Expected: r.recv.Length, Found: got}
			r.fatal(ib.NAKInvalidRequest, queue.LocLenErr, machine.EventQPReqErr, d)
			return false
		}
	case ib.KindWrite:
		return r.measureWrite(in, info, n)
	case ib.KindAtomicWrite:
		// IBTA A19: one word, which one packet brings.
		if in.RETH.Length != atomicLen || n != atomicLen {
			r.invalid(reason.Detail{Reason: reason.LengthBelowRETH, Expected: atomicLen, Found: uint64(min(n, in.RETH.Length))})
			return false
		}
	}
	return true
}

// measureWrite checks that the message ends where its RETH says.
func (r *responder) measureWrite(in *machine.In, info *ib.Info, n uint32) bool {
	left := r.left
	if info.First {
		left = in.RETH.Length
	}
	switch {
	case info.Last && n < left:
		r.invalid(reason.Detail{Reason: reason.LengthBelowRETH, Expected: uint64(left), Found: uint64(n)})
	case info.Last && n > left, !info.Last && n >= left:
		r.invalid(reason.Detail{Reason: reason.LengthExceedsRETH, Expected: uint64(left), Found: uint64(n)})
	default:
		return true
	}
	return false
}

// permit checks the R_Key (IBTA 9.7.4.1.5, 10.6.3): whole messages at their
// first packet, later packets only for the key's being valid still. A message
// of no bytes needs no key (C9-88).
func (r *responder) permit(in *machine.In, info *ib.Info) bool {
	switch info.Kind {
	case ib.KindWrite, ib.KindReadRequest, ib.KindAtomicWrite:
		if !info.First {
			if r.region != nil && !r.region.Valid() {
				r.denied(reason.Detail{Reason: reason.KeyInvalid, Expected: 1})
				return false
			}
			return true
		}
		r.region = nil
		if in.RETH.Length == 0 {
			return true
		}
		return r.look(in.RETH.RKey, in.RETH.Addr, uint64(in.RETH.Length), rights(info.Kind))
	case ib.KindCompareSwap, ib.KindFetchAdd:
		return r.look(in.AtomicETH.RKey, in.AtomicETH.Addr, 8, qp.RemoteAtomic)
	}
	return true
}

// look finds the region of a key and checks the access to it.
func (r *responder) look(key uint32, addr, n uint64, access qp.Access) bool {
	reg, d := r.find(key, addr, n, access)
	if d.Reason != reason.None {
		r.denied(d)
		return false
	}
	r.region = reg
	return true
}

func (r *responder) find(key uint32, addr, n uint64, access qp.Access) (*memory.Region, reason.Detail) {
	reg := r.known
	if reg == nil || reg.Key != key || !reg.Valid() {
		if reg = r.p.Memory.Lookup(key); reg == nil {
			return nil, reason.Detail{Reason: reason.KeyUnknown, Expected: uint64(r.p.Memory.Count()), Found: uint64(key)}
		}
		r.known = reg
	}
	return reg, reg.CheckRemote(r.p.PD, r.p.QPN, addr, n, access)
}

// invalid refuses a request that breaks the rules (IBTA 9.9.3.1.3, class C).
func (r *responder) invalid(d reason.Detail) {
	r.fatal(ib.NAKInvalidRequest, queue.RemInvReqErr, machine.EventQPReqErr, d)
}

// denied refuses a request that its key does not allow (IBTA 9.9.3.1.3, class C).
func (r *responder) denied(d reason.Detail) {
	r.fatal(ib.NAKRemoteAccess, queue.RemAccessErr, machine.EventQPAccessErr, d)
}

// fatal refuses a request and ends the connection: the peer gets the NAK, the
// consumer the error, by the receive in use or else by an event (IBTA
// 9.9.3.1.3, C9-222.1.1; 11.6.3.2).
func (r *responder) fatal(s ib.Syndrome, status queue.Status, e machine.Event, d reason.Detail) {
	r.q.refuse(d)
	r.reject(s)
	r.end(status, e, d)
}

// end takes the queue pair to the error state with the answers owed as its
// last words.
func (r *responder) end(status queue.Status, e machine.Event, d reason.Detail) {
	if r.p.Attr.State == qp.Err {
		return
	}
	r.q.enterErr(d, status)
	if r.taken {
		r.finish(status, d)
		return
	}
	r.p.Host.Event(r.p, e, d)
}
