package sanitize

import (
	"fmt"

	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
)

// A Pair is a queue pair as a Sanitizer sees it.
type Pair struct {
	QPN            uint32
	Type           qp.Type
	PD, RecvPD     uint32
	SignalAll      bool
	SQ             *queue.SendRing
	Recv           func() *queue.RecvRing // private or shared; nil if there is none
	Shared         any                    // the shared receive queue, nil if there is none
	SendCQ, RecvCQ any
	State          func() qp.State
}

type pair struct {
	Pair
	object
	recv       *receives // private or shared; nil if there is none
	seen       uint32    // index in SQ behind the last request that was looked at
	posted     []sent    // outstanding requests, the oldest first
	unsignaled int       // requests since the last that asks for a completion
}

// sent is a request that was posted.
type sent struct {
	index    uint32
	id       uint64
	signaled bool
	list     []memory.SGE
	sums     sums  // of what is sent, nil if a change would not be found
	lent     *loan // where the answer is written; nil if there is none, or if a change would not be found
	where    []uintptr
}

// A Completions is a completion queue as a Sanitizer sees it.
type Completions struct {
	Ring    func() *queue.CompletionRing
	Events  bool // it has a channel
	Channel any  // that channel
	Hidden  bool // the program arms it without a call
}

type completions struct {
	Completions
	object
	pushed   int // completions, without flushed ones
	flushed  int
	consumed bool // the program has taken one
}

// CreatedPair notes a new queue pair.
func (s *Sanitizer) CreatedPair(o any, p *Pair) {
	if s == nil {
		return
	}
	x := s.created(o, fmt.Sprintf("queue pair %#06x (%v)", p.QPN, p.Type))
	s.mu.Lock()
	defer s.mu.Unlock()
	q := &pair{Pair: *p, object: *x, seen: p.SQ.Ring.Producer()}
	s.pairs[o] = q
	switch {
	case p.Shared != nil:
		q.recv = s.receives[p.Shared]
	case p.Recv != nil:
		q.recv = newReceives(Receives{PD: p.RecvPD, Ring: p.Recv}, x)
		s.receives[o] = q.recv
	}
}

// CreatedCQ notes a new completion queue.
func (s *Sanitizer) CreatedCQ(o any, c Completions) {
	if s == nil {
		return
	}
	x := s.created(o, fmt.Sprintf("completion queue of %d entries", c.Ring().Depth()))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queues[o] = &completions{Completions: c, object: *x}
	s.hidden = s.hidden || c.Hidden
}

// Posted looks at the requests that were posted to a queue pair since the last call.
func (s *Sanitizer) Posted(o any) {
	if s != nil {
		s.look(o)
	}
}

func (s *Sanitizer) look(o any) {
	where := s.where()
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.pairs[o]
	if q == nil {
		return
	}
	for i := len(q.posted) - 1; i >= 0 && q.posted[i].where == nil; i-- {
		q.posted[i].where = where // the device was faster
	}
	s.take(q, where)
	s.checkRoom(q, where)
}

// take looks at the requests that were posted since the last call.
func (s *Sanitizer) take(q *pair, where []uintptr) {
	end := q.SQ.Ring.Producer()
	for ; q.seen != end; q.seen = q.SQ.Next(q.seen) {
		s.request(q, q.seen, where)
	}
}

// request checks a request that was posted.
func (s *Sanitizer) request(q *pair, i uint32, where []uintptr) {
	w := q.SQ.At(i)
	r := sent{index: i, id: w.WRID, signaled: q.SignalAll || w.Flags&queue.Signaled != 0, where: where}
	if w.Flags&queue.Inline == 0 && w.Op != queue.LocalInv && w.Op != queue.BindMW && w.Op != queue.AtomicWrite {
		r.list = append(r.list, q.SQ.SGEs(i)...)
		for _, e := range r.list {
			s.checkKey(q.name, q.PD, e, where)
		}
	}
	switch {
	case w.Op <= queue.SendImm || w.Op == queue.SendInv:
		parts, ok := s.parts(r.list)
		if ok && s.cfg.Rules.Has(SendChanged) {
			r.sums, _ = sumsOf(parts)
		}
		if w.Flags&queue.Inline != 0 {
			parts = [][]byte{q.SQ.InlineData(i)}
		}
		s.checkPayload(fmt.Sprintf("%v %#x", w.Op, w.WRID), parts, where)
	case w.Op == queue.Read || w.Op.Atomic():
		r.lent = s.lend(loan{rule: ReadChanged, owner: &q.object, what: fmt.Sprintf("%v %#x", w.Op, w.WRID), when: "the answer came", where: where}, r.list)
	}
	if w.Op == queue.CompareSwap || w.Op == queue.FetchAdd {
		if at := w.Atomic().Addr; at%8 != 0 {
			s.report(AtomicUnaligned, &q.object, fmt.Sprintf("atomic operation at %#x", at), where)
		}
	}
	q.posted = append(q.posted, r)
	if q.unsignaled++; r.signaled {
		q.unsignaled = 0
	}
	if depth := q.SQ.Depth(); q.unsignaled == depth {
		s.report(SendsUnsignaled, &q.object, fmt.Sprintf("%d requests in a row ask for no completion, and the send queue has room for %d", q.unsignaled, depth), where, q.createdAt())
	}
}

// checkKey checks the key of an entry.
func (s *Sanitizer) checkKey(user string, pd uint32, e memory.SGE, where []uintptr) {
	x := s.regions[e.LKey]
	switch {
	case x == nil || e.Length == 0: // the key of no bytes is not looked at
	case x.ended:
		s.report(UseAfterDereg, &x.object, "posted to "+user, where, x.deregistered(), x.registered())
	case x.PD != pd:
		s.report(LKeyOtherPD, &x.object, fmt.Sprintf("a region of protection domain %d is posted to %s of protection domain %d", x.PD, user, pd), where, x.registered())
	}
}

// checkRoom compares what can complete with the room for it.
func (s *Sanitizer) checkRoom(q *pair, where []uintptr) {
	c := s.queues[q.SendCQ]
	if c == nil || !s.cfg.Rules.Has(CQTooShallow) {
		return
	}
	ring := c.Ring()
	n := ring.Len()
	counted := make(map[any]bool)
	for _, p := range s.pairs {
		if state := p.State(); state == qp.Reset || state == qp.Err {
			continue
		}
		if p.SendCQ == q.SendCQ {
			for i := range p.outstanding() {
				if p.posted[i].signaled {
					n++
				}
			}
		}
		if p.RecvCQ == q.SendCQ && p.Recv != nil && (p.Shared == nil || !counted[p.Shared]) {
			counted[p.Shared] = p.Shared != nil
			n += p.Recv().Ring.Len()
		}
	}
	if n > ring.Depth() {
		s.report(CQTooShallow, &c.object, fmt.Sprintf("%d completions can come, and there is room for %d", n, ring.Depth()), where, c.createdAt())
	}
}

// outstanding forgets requests that the device has completed, and returns the others.
func (q *pair) outstanding() []sent {
	first := q.SQ.Consumer()
	left := q.SQ.Distance(first, q.seen)
	if n := len(q.posted) - left; n > 0 {
		return q.posted[n:]
	}
	return q.posted
}

// uses returns what of the queue pair uses a key, and where that was posted; "" if nothing does.
func (q *pair) uses(key uint32) (what string, where []uintptr) {
	if s := q.State(); s == qp.Reset || s == qp.Err {
		return "", nil // nothing is sent or received any more
	}
	for _, r := range q.outstanding() {
		for _, e := range r.list {
			if e.LKey == key {
				return fmt.Sprintf("send request %#x", r.id), r.where
			}
		}
	}
	if q.Recv == nil {
		return "", nil
	}
	ring := q.Recv()
	for i, end := ring.Consumer(), ring.Ring.Producer(); i != end; i = ring.Next(i) {
		for _, e := range ring.SGEs(i) {
			if e.LKey == key {
				return fmt.Sprintf("receive %#x", ring.At(i).WRID), q.recv.at(i)
			}
		}
	}
	return "", nil
}

func (q *pair) receiveDepth() int {
	if q.Recv == nil {
		return 0
	}
	return q.Recv().Depth()
}

// Completed notes a completion that the program is about to get.
func (s *Sanitizer) Completed(o any, e *queue.CQE) {
	if s != nil {
		s.completed(o, e)
	}
}

func (s *Sanitizer) completed(o any, e *queue.CQE) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.pairs[o]
	if q == nil {
		return
	}
	receive := e.Op&queue.WCRecv != 0
	at := q.SendCQ
	if receive {
		at = q.RecvCQ
	}
	if c := s.queues[at]; c != nil {
		c.consumed = c.consumed || c.pushed+c.flushed > c.Ring().Len()
		if e.Status == queue.WRFlushErr {
			c.flushed++
		} else {
			c.pushed++
		}
	}
	if e.Reason == reason.ReceiveLocalKey && q.recv != nil && q.recv.unseen { // others were looked at when they were posted
		s.checkKey(q.name, q.RecvPD, memory.SGE{LKey: uint32(e.Expected), Length: 1}, nil)
	}
	if !receive {
		s.take(q, nil) // the device may execute a request before its doorbell
		s.retire(q, e)
	}
}

// retire compares the buffers of completed requests with what was posted.
func (s *Sanitizer) retire(q *pair, e *queue.CQE) {
	last := -1
	for i := range q.posted {
		if q.posted[i].id == e.WRID && (q.posted[i].signaled || e.Status != queue.Success) {
			last = i
			break
		}
	}
	for _, r := range q.posted[:last+1] {
		s.lent.remove(r.lent)
		// The buffer of an unsignalled request may be free before a later request completes: the peer's
		// answer has told so.
		parts, ok := s.parts(r.list)
		if !ok || len(r.sums) == 0 || !r.signaled || e.Status != queue.Success {
			continue
		}
		if changed := r.sums.changed(parts); changed != "" {
			s.report(SendChanged, &q.object, fmt.Sprintf("%s of the buffer of send request %#x changed before the request completed", changed, r.id), nil,
				note{"the request was posted", r.where})
		}
	}
	q.posted = q.posted[last+1:]
}

// checkQueue looks at what a completion queue holds at its end.
func (s *Sanitizer) checkQueue(c *completions) {
	ring := c.Ring()
	n := ring.Len()
	if c.pushed > 0 && !c.consumed && n >= c.pushed+c.flushed {
		s.report(CQUnpolled, &c.object, fmt.Sprintf("%d completions came and none was taken", n), nil, c.createdAt())
		return
	}
	for i := ring.Consumer(); n > 0; i, n = ring.Next(i), n-1 {
		if e := ring.At(i); e.Status != queue.Success && e.Status != queue.WRFlushErr {
			s.report(FailureUnpolled, &c.object, fmt.Sprintf("request %#x of queue pair %#06x failed with %v", e.WRID, e.QPN, e.Status), nil, c.createdAt())
			return
		}
	}
}
