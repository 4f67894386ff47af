package simnet_test

import (
	"bytes"
	"fmt"

	"softrdma/internal/adapter"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/simnet/rig"
)

// slots is the memory for the receives of one queue, in equal parts.
type slots struct {
	area   *area
	ring   *queue.RecvRing
	size   int
	free   []int
	strict bool // only complete messages may be written
}

// shared is a shared receive queue.
type shared struct {
	queue *adapter.SRQ
	slots *slots
}

func (h *host) newSlots(ring *queue.RecvRing, strict bool) *slots {
	s := &slots{ring: ring, size: 64 << h.w.rng.IntN(9), strict: strict}
	// Post more than the ring holds: a queue pair that is destroyed keeps the request that it
	// had taken from a shared queue.
	n := ring.Depth() + 10
	s.area = h.newArea("receive buffer", s.size*n, qp.LocalWrite, true)
	for i := range n {
		s.free = append(s.free, i)
	}
	return s
}

func (h *host) newShared() {
	q, err := h.PD.CreateSRQ(1+h.w.rng.IntN(30), 1+h.w.rng.IntN(4))
	if err != nil {
		h.w.fail("%v", err)
		return
	}
	h.srq = &shared{queue: q, slots: h.newSlots(q.Ring(), true)}
	h.w.check(q.SetLimit(h.w.rng.IntN(q.Ring().Depth() + 1)))
}

// postReceives fills the receive queue up, often not completely.
func (e *end) postReceives() bool {
	s := e.slots
	if e.lastErr && e.q.Recv != nil {
		if e.flushes == 3 {
			return false // they would be flushed at once, and free their slots again
		}
		e.flushes++
	}
	n := e.w.rng.IntN(s.ring.Depth() + 1)
	any := false
	for range n {
		if len(s.free) == 0 || s.ring.Full() {
			break
		}
		k := e.w.rng.IntN(len(s.free))
		r := &recv{id: recvID | uint64(len(e.w.recvs)), slot: s.free[k], slots: s}
		s.free = append(s.free[:k], s.free[k+1:]...)
		r.spans = e.w.cut(s.area, r.slot*s.size, s.size, s.ring.MaxSGE())
		e.w.recvs = append(e.w.recvs, r)
		if e.q.Recv != nil {
			e.recvs = append(e.recvs, r)
		}
		if err := rig.PostRecv(s.ring, r.id, entries(r.spans)...); err != nil {
			e.w.fail("%s: posting a receive: %v", e.name, err)
		}
		any = true
	}
	if any && e.q.StateHint() == qp.Err {
		e.q.Doorbell() // so that they are flushed
	}
	return any
}

// received handles a completion of the receive queue.
func (e *end) received(c *queue.CQE) {
	w := e.w
	i := int(c.WRID &^ recvID)
	if i >= len(w.recvs) || w.recvs[i].done {
		w.fail("%s: receive %d completed twice or was never posted", e.name, i)
		return
	}
	r := w.recvs[i]
	r.done = true
	if e.q.Recv != nil {
		if len(e.recvs) == 0 || e.recvs[0] != r {
			w.fail("%s: receive %d completed out of order", e.name, i)
			return
		}
		e.recvs = e.recvs[1:]
	}
	if c.Status != queue.Success {
		e.receiveFailed(r, c)
		return
	}
	if e.lastErr {
		w.fail("%s: receive %d succeeded behind a failed one", e.name, i)
	}
	w.stats.receives++
	if e.kind == qp.UD {
		e.datagram(r, c)
	} else if m := e.match(r, c); m != nil && m.done != nil && m.Op == queue.SendInv {
		m.done(true)
	}
	r.slots.free = append(r.slots.free, r.slot)
}

func (e *end) receiveFailed(r *recv, c *queue.CQE) {
	ok := c.Status == queue.WRFlushErr && e.broken() || e.failed
	if !e.lastErr && c.Status == queue.LocLenErr && e.peer != nil && e.peer.caused {
		ok = true
	}
	if c.Status == queue.RemInvReqErr && e.peer != nil && e.peer.caused {
		ok = true // a SEND with invalidate of an unknown window
	}
	// The end may fail before the program has seen the completion.
	if e.q.Query().State == qp.Err && (e.w.profile.harsh || e.gone() || e.rnrLimited) {
		ok = true
	}
	if !ok {
		e.w.fail("%s: receive failed with status %d: %v", e.name, c.Status, detail(c))
	}
	e.lastErr = true
	loosen(r.spans)
	r.slots.free = append(r.slots.free, r.slot)
}

// match finds the message that completed a receive, and checks its bytes.
func (e *end) match(r *recv, c *queue.CQE) *wr {
	if e.kind == qp.RC {
		if e.nextIn == len(e.inbound) {
			e.w.fail("%s: received a message that nobody sent: %+v", e.name, *c)
			return nil
		}
		m := e.inbound[e.nextIn]
		e.nextIn++
		if why := e.differs(m, r, c); why != "" {
			e.w.fail("%s: message %d of the peer's request %d: %s", e.name, e.nextIn-1, m.seq, why)
		}
		e.accept(m, r)
		return m
	}
	// An unreliable connection skips messages, but goes back only if the network reorders.
	start := e.nextIn
	if e.w.profile.disorder {
		start = 0
	}
	for i := start; i < len(e.inbound); i++ {
		if e.differs(e.inbound[i], r, c) == "" {
			e.nextIn = i + 1
			e.taken++
			e.accept(e.inbound[i], r)
			return e.inbound[i]
		}
	}
	e.w.fail("%s: received what nobody sent, or too late: %+v", e.name, *c)
	return nil
}

// differs describes how a completed receive differs from message m.
func (e *end) differs(m *wr, r *recv, c *queue.CQE) string {
	op, imm, flags := queue.WCRecv, uint32(0), uint32(0)
	switch m.Op {
	case queue.WriteImm:
		op = queue.WCRecvRDMAImm
		fallthrough
	case queue.SendImm:
		imm, flags = m.ImmInv, queue.WCImm
	case queue.SendInv:
		imm, flags = m.ImmInv, queue.WCWithInv
	}
	solicited := uint8(0)
	if m.Flags&queue.Solicited != 0 {
		solicited = 1
	}
	switch {
	case c.Op != op || c.Flags != flags || c.QPN != e.q.QPN:
		return fmt.Sprintf("completed as %+v, operation was %d", *c, m.Op)
	case int(c.ByteLen) != len(m.data):
		return fmt.Sprintf("%d bytes received, %d sent", c.ByteLen, len(m.data))
	case flags != 0 && c.ImmInv != imm:
		return fmt.Sprintf("immediate or key %#x received, %#x sent", c.ImmInv, imm)
	case c.Solicited != solicited:
		return fmt.Sprintf("solicited %d received, %d sent", c.Solicited, solicited)
	case m.Op == queue.WriteImm:
		return ""
	}
	if got := found(r.spans, len(m.data)); !bytes.Equal(got, m.data) {
		return differ(got, m.data)
	}
	return ""
}

// accept applies a received message to the model.
func (e *end) accept(m *wr, r *recv) {
	if m.Op != queue.WriteImm {
		scatter(r.spans, m.data)
	} else if e.kind == qp.UC {
		// What was received whole is there.
		m.to.write(m.off, m.data)
	}
	if !r.slots.strict {
		settle(r.spans)
	}
}

// drainReceives moves the queue pair to ERR and checks that all its receives are flushed, each
// once.
func (e *end) drainReceives() {
	if e.dead || e.w.chance(30) {
		return
	}
	e.toErr = true
	if err := rig.ToErr(e.q); err != nil {
		e.w.fail("%s to ERR: %v", e.name, err)
	}
	for range 3 {
		e.w.net.Sleep(e.w.profile.trip())
		for e.h.poll() {
		}
	}
	e.h.pollAll()
	if len(e.recvs) != 0 {
		e.w.fail("%s: %d receives were not flushed", e.name, len(e.recvs))
	}
	if n := len(e.pending); n != 0 {
		e.w.fail("%s: %d requests never completed", e.name, n)
	}
}

// checkEnd checks all memory, all counters, and the messages that must have arrived.
func (w *world) checkEnd() {
	for _, h := range w.hosts {
		h.pollAll()
	}
	w.checkCounters()
	for _, e := range w.ends {
		for _, r := range e.recvs {
			loosen(r.spans)
		}
		if e.dead {
			loosen([]span{{e.slots.area, 0, len(e.slots.area.mem)}})
		}
		if e.kind == qp.RC {
			e.checkWords()
		}
	}
	for _, h := range w.hosts {
		if h.srq != nil {
			for _, r := range w.recvs {
				if r.slots == h.srq.slots && !r.done {
					loosen(r.spans)
				}
			}
		}
		n := word(h.shared.mem, 0)
		if n < h.added || n > h.added+h.maybe {
			w.fail("host %d: shared word is %d, %d FETCH_ADDs succeeded and %d may have", h.index, n, h.added, h.maybe)
		}
		h.shared.write(0, h.shared.mem[:8])
		for _, a := range h.areas {
			if err := a.check(); err != nil {
				w.fail("%v", err)
			}
		}
	}
}

func (e *end) checkWords() {
	for i := range e.counts {
		got := word(e.words.mem, i)
		ok := false
		for _, v := range e.alts[i] {
			ok = ok || v == got
		}
		if !ok {
			e.w.fail("%s: word %d is %d, expected one of %d", e.name, i, got, e.alts[i])
		}
	}
	e.words.write(0, e.words.mem)
}

// checkCounters checks the devices' counters against the profile.
func (w *world) checkCounters() {
	var n [reason.Count]uint64
	for _, h := range w.hosts {
		for r := range n {
			n[r] += h.Dev.Trace.Counter(reason.Reason(r))
		}
	}
	p := &w.profile
	if p.faults.Corrupt == 0 && n[reason.PacketICRC] != 0 {
		w.fail("%d packets with a wrong ICRC on a network that corrupts none", n[reason.PacketICRC])
	}
	for _, r := range []reason.Reason{reason.PacketPad, reason.PacketVersion, reason.PacketPKey, reason.PacketShort,
		reason.PacketOpcode, reason.PacketExtraPayload, reason.PacketTransport, reason.PacketSource, reason.CQOverflow} {
		if n[r] != 0 {
			w.fail("%d refusals %v", n[r], r)
		}
	}
	quiet := !p.lossy && !p.disorder && n[reason.NoReceive] == 0 && !w.troubled()
	if len(w.bonds) > 0 { // a round trip takes no virtual time there, so a late request is soon probed
		n[reason.SequenceDuplicate] -= min(n[reason.SequenceDuplicate], n[reason.TailProbe])
	}
	if quiet && n[reason.SequenceAhead]+n[reason.SequenceDuplicate]+n[reason.SequenceGap] != 0 {
		w.fail("a clean network, and %d packets ahead, %d duplicates, %d gaps", n[reason.SequenceAhead],
			n[reason.SequenceDuplicate], n[reason.SequenceGap])
	}
	for _, e := range w.ends {
		if quiet && e.kind == qp.UC && e.taken+e.unsent != len(e.inbound) && n[reason.ReceiveTooSmall] == 0 {
			w.fail("%s: %d messages received of %d on a clean network, %d not sent", e.name, e.taken, len(e.inbound), e.unsent)
		}
	}
	w.checkDatagrams(&n)
}

func (w *world) troubled() bool {
	for _, e := range w.ends {
		if e.failed || e.broken() || e.dead || e.trouble != 0 {
			return true
		}
	}
	return false
}

func detail(c *queue.CQE) reason.Detail {
	return reason.Detail{Reason: c.Reason, Expected: c.Expected, Found: c.Found}
}

func differ(got, want []byte) string {
	if len(got) != len(want) {
		return fmt.Sprintf("%d bytes, expected %d", len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			return fmt.Sprintf("byte %d of %d as %#02x, expected %#02x", i, len(got), got[i], want[i])
		}
	}
	return "the right bytes"
}
