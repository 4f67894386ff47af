package simnet_test

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"softrdma/internal/adapter"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/simnet/rig"
)

// aligned returns word-aligned memory, as atomics need it.
func aligned(n int) []byte {
	w := make([]uint64, (n+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(w))), n)
}

// An end is a queue pair with its program and the model of both.
type end struct {
	w    *world
	name string
	h    *host
	kind qp.Type
	q    *adapter.QP
	peer *end // of a connection

	manner manner // of a reliable end

	maxSGE, inline int
	signalAll      bool

	target  *area    // memory for the peer's WRITEs
	results *area    // memory for results of READs and atomics
	words   *area    // memory for the peer's atomics
	counts  []uint64 // the model of words
	alts    [][]uint64

	budget  int   // work requests still to be posted
	seq     int   // number of posted requests
	pending []*wr // posted and not known to be complete, in order
	failed  bool  // a request completed in error
	toErr   bool  // the program moved the queue pair to ERR
	dead    bool  // destroyed
	stopped bool  // in SQE until the program resumes it
	resumed bool  // back in RTS
	sqd     bool
	fence   bool // the next request must be fenced

	inbound []*wr // the peer's messages that consume a receive, in order
	nextIn  int
	taken   int     // messages received on an unreliable connection
	unsent  int     // messages to this end whose request failed
	recvs   []*recv // posted to the private queue, in order
	slots   *slots
	lastErr bool // a receive completed in error
	flushes int  // number of receive postings after that

	window     *window
	trouble    trouble
	troubleAt  int
	caused     bool // this side has caused trouble
	rnrLimited bool

	dgram        *datagrams
	flushedSends int
}

// A wr is a work request with its expected result.
type wr struct {
	rig.Send
	seq      int
	signaled bool
	data     []byte // sent, or expected of a READ

	consumes bool   // consumes a receive of the peer
	to       *area  // WRITE: where to
	off      int    // WRITE: offset there
	result   []span // of READ and atomics
	from     *area  // source of a READ, in the peer's target
	word     int    // of atomics
	sharing  bool   // an atomic on the host's shared words

	expect []queue.Status // allowed statuses if there is trouble; nil is success
	done   func(ok bool)  // of windows
}

// A recv is a posted receive.
type recv struct {
	id    uint64
	spans []span
	slot  int
	slots *slots
	done  bool
}

// recvID marks the IDs of receives.
const recvID = 1 << 63

// newEnd makes a queue pair with random attributes.
func (w *world) newEnd(kind qp.Type, h *host) *end {
	e := &end{
		w: w, h: h, kind: kind, name: fmt.Sprintf("%v end %d on host %d", kind, len(w.ends), h.index),
		maxSGE: 1 + w.rng.IntN(5), inline: w.rng.IntN(200), signalAll: w.chance(20),
		budget: 5 + w.rng.IntN(50),
	}
	c := adapter.QPConfig{
		Type: kind, SendCQ: h.cq(), RecvCQ: h.cq(), SendDepth: 1 + w.rng.IntN(40), SendSGE: e.maxSGE,
		RecvDepth: 1 + w.rng.IntN(20), RecvSGE: 1 + w.rng.IntN(4), Inline: e.inline, SignalAll: e.signalAll,
	}
	if kind == qp.UC && w.chance(50) {
		c.Control = w.newManner(h.manner).control
	}
	if kind == qp.RC {
		// A choice that is left out falls back to the device's.
		e.manner = h.manner
		if w.chance(50) {
			e.manner = w.newManner(h.manner)
			c.Control, c.Recovery = e.manner.control, e.manner.recovery
		}
	}
	if h.srq != nil && kind != qp.UD && w.chance(60) {
		c.SRQ = h.srq.queue
	}
	q, err := h.PD.CreateQP(&c)
	if err != nil {
		w.fail("%v", err)
		return nil
	}
	e.q = q
	switch {
	case c.SRQ != nil:
		e.slots = h.srq.slots
		e.slots.strict = e.slots.strict && kind == qp.RC
	default:
		e.slots = h.newSlots(q.Recv, kind == qp.RC)
	}
	if kind != qp.UD {
		e.target = h.newArea("target", 1<<16, qp.LocalWrite|qp.RemoteWrite|qp.RemoteRead|qp.FlushGlobal|qp.MWBind, true)
	}
	if kind == qp.RC {
		e.results = h.newArea("results", 1<<17, qp.LocalWrite, true)
		e.words = h.newArea("words", 32, qp.LocalWrite|qp.RemoteAtomic|qp.RemoteWrite, true)
		for i := range 4 {
			e.counts = append(e.counts, word(e.words.mem, i))
			e.alts = append(e.alts, []uint64{e.counts[i]})
		}
		if w.chance(40) {
			e.newWindow()
		}
	}
	w.ends = append(w.ends, e)
	h.ends = append(h.ends, e)
	return e
}

func word(b []byte, i int) uint64 { return binary.NativeEndian.Uint64(b[8*i:]) }

// broken reports whether this end's errors have a cause.
func (e *end) broken() bool {
	return e.toErr || e.caused || e.peer != nil && (e.peer.caused || e.peer.toErr)
}

// gone reports whether the peer no longer answers.
func (e *end) gone() bool {
	return e.peer != nil && (e.peer.dead || e.peer.failed || e.peer.toErr || e.broken())
}

func (e *end) finished() bool {
	switch {
	case e.dead:
		return true
	case e.budget > 0 || len(e.pending) > 0 || e.stopped:
		return false
	case e.kind == qp.RC && !e.failed && !e.gone():
		return e.nextIn == len(e.inbound)
	}
	return true
}

// act runs a round of the program and reports whether it did anything.
func (e *end) act() bool {
	if e.dead || e.w.ending {
		return false
	}
	busy := false
	if e.w.chance(60) {
		busy = e.postReceives()
	}
	if e.stopped {
		return e.resume() || busy
	}
	if e.budget > 0 && !e.failed && e.kind != qp.UD && e.w.chance(2) {
		e.drain()
	}
	if e.budget > 0 && e.w.chance(50) {
		busy = e.post() || busy
	}
	return busy
}

// drain moves the queue pair to SQD. The event moves it back.
func (e *end) drain() {
	if e.sqd || e.q.Query().State != qp.RTS {
		return
	}
	if err := e.q.Modify(qp.MaskState|qp.MaskEnSQDAsyncNotify, &qp.Attr{State: qp.SQD, EnSQDNotify: true}); err != nil {
		e.w.fail("%s to SQD: %v", e.name, err)
	}
	e.sqd = true
}

func (e *end) drained() {
	if !e.sqd {
		e.w.fail("%s: drained without being asked", e.name)
	}
	e.sqd = false
	if e.q.Query().State == qp.SQD {
		e.w.check(e.q.Modify(qp.MaskState, &qp.Attr{State: qp.RTS}))
	}
}

// resume moves the queue pair out of SQE.
func (e *end) resume() bool {
	if !e.resumed {
		if s := e.q.Query().State; s != qp.SQE {
			e.w.fail("%s: in %v after a failed request, expected SQE", e.name, s)
		}
		e.w.check(e.q.Modify(qp.MaskState, &qp.Attr{State: qp.RTS}))
		e.resumed = true
	}
	if len(e.pending) > 0 {
		return false // flushed completions must be polled first
	}
	e.stopped, e.resumed = false, false
	return true
}

// post posts a list of up to four requests.
func (e *end) post() bool {
	var list []rig.Send
	for n := 1 + e.w.rng.IntN(4); n > 0 && e.budget > 0 && e.q.SQ.Len()+len(list) < e.q.SQ.Depth(); n-- {
		r := e.make()
		if r == nil {
			break
		}
		e.budget--
		r.seq = e.seq
		r.ID = uint64(e.seq)
		e.seq++
		if e.budget == 0 || r.expect != nil || r.done != nil || e.signalAll || e.w.chance(40) {
			r.signaled = true
			if !e.signalAll {
				r.Flags |= queue.Signaled
			}
		}
		if e.fence || e.w.chance(10) {
			r.Flags |= queue.Fence
			e.fence = false
		}
		if r.from != nil {
			e.fence = true
		}
		e.pending, list = append(e.pending, r), append(list, r.Send)
	}
	if len(list) == 0 {
		return false
	}
	for _, r := range e.pending[len(e.pending)-len(list):] {
		if r.consumes {
			e.peer.inbound = append(e.peer.inbound, r)
		}
	}
	if err := rig.PostSend(e.q, list...); err != nil {
		e.w.fail("%s: posting: %v", e.name, err)
	}
	return true
}
