package machine

import (
	"softrdma/internal/queue"
	"softrdma/internal/reason"
)

// Completions builds the completions of one queue pair and pushes them to its
// completion queues. In the error state it knows the first error, which flushed
// completions report.
type Completions struct {
	port    *Port
	cause   reason.Reason // the first error, None if the program asked for the error state
	status  queue.Status  // of the first error
	lastWQE bool          // EventQPLastWQEReached was raised

	peer *reason.Detail // what the peer says about the first error or its disconnect, nil if nothing

	cqe queue.CQE // reused: the argument of an interface method would be allocated
}

// NewCompletions returns the builder for p.
func NewCompletions(p *Port) Completions { return Completions{port: p} }

// Reset forgets the first error.
func (c *Completions) Reset() {
	c.cause, c.status, c.lastWQE, c.peer = reason.None, queue.Success, false, nil
}

// Failed notes the error that takes the queue pair to the error state.
func (c *Completions) Failed(d reason.Detail, s queue.Status) { c.cause, c.status = d.Reason, s }

// PeerSays notes what the peer says about the first error, or why it ends the connection. Flushed
// completions have it as well. What it says first stays: PeerSays reports whether this is the first.
func (c *Completions) PeerSays(d reason.Detail) (first bool) {
	if c.peer != nil || d.Reason == reason.None {
		return false
	}
	c.peer = &d
	return true
}

// said returns what the peer says, for a completion with a status.
func (c *Completions) said(s queue.Status) reason.Detail {
	if s != queue.WRFlushErr || c.peer == nil {
		return reason.Detail{}
	}
	return *c.peer
}

// Flushed is the detail of a flushed completion: the first error.
func (c *Completions) Flushed() reason.Detail {
	return reason.Detail{Reason: reason.Flushed, Expected: uint64(c.cause), Found: uint64(c.status)}
}

// fill fills the reused completion. A completion in error counts as solicited
// (IBTA 11.4.2.2).
func (c *Completions) fill(wrid uint64, op queue.WCOp, s queue.Status, d reason.Detail) *queue.CQE {
	c.cqe = queue.CQE{
		WRID: wrid, Op: op, Status: s, QPN: c.port.QPN, PortNum: c.port.Attr.Port,
		Reason: d.Reason, Expected: d.Expected, Found: d.Found,
	}
	if s != queue.Success {
		c.cqe.Solicited = 1
	}
	return &c.cqe
}

// CountSend counts a SEND that is complete, signalled or not.
func (c *Completions) CountSend(op queue.Op) {
	if t := c.port.Traffic; t != nil && op.TakesReceive() && op != queue.WriteImm {
		t.Sends++
	}
}

// Sent completes a send work request with success if it is signalled (IBTA 10.7.3.1).
func (c *Completions) Sent(wrid uint64, op queue.Op, flags queue.Flags, length uint32) {
	if c.port.SQSigAll || flags&queue.Signaled != 0 {
		c.sent(wrid, op, length)
	}
}

func (c *Completions) sent(wrid uint64, op queue.Op, length uint32) {
	e := c.fill(wrid, op.Completed(), queue.Success, reason.Detail{})
	e.ByteLen = length
	c.port.SendCQ.Push(e)
}

// SendFailed completes a send work request in error.
func (c *Completions) SendFailed(wrid uint64, op queue.Op, s queue.Status, d reason.Detail) {
	c.SendRefused(wrid, op, s, d, c.said(s))
}

// SendRefused is SendFailed with the reason that the peer gave, None if it gave none.
func (c *Completions) SendRefused(wrid uint64, op queue.Op, s queue.Status, d, peer reason.Detail) {
	e := c.fill(wrid, op.Completed(), s, d)
	e.SetReasons(d, peer)
	c.port.SendCQ.Push(e)
}

// A Received is a message for whose end a receive completes.
type Received struct {
	Op        queue.WCOp // WCRecv or WCRecvRDMAImm
	Length    uint32
	Flags     uint32 // queue.WCImm, queue.WCWithInv, queue.WCGRH
	ImmInv    uint32
	Solicited bool
	SrcQPN    uint32 // of a datagram
	SL        uint8  // of a datagram: service level on InfiniBand, else queue.PacketIPv4 or queue.PacketIPv6
	SLID      uint16 // of a datagram on InfiniBand
	PathBits  uint8  // of the destination LID of such a datagram
}

// Received completes a receive with success (IBTA 11.4.2.1).
func (c *Completions) Received(wrid uint64, m *Received) {
	if t := c.port.Traffic; t != nil {
		t.Receives++
	}
	e := c.fill(wrid, m.Op, queue.Success, reason.Detail{})
	e.ByteLen, e.Flags, e.ImmInv, e.SrcQPN = m.Length, m.Flags, m.ImmInv, m.SrcQPN
	e.SL, e.SLID, e.DLIDPath = m.SL, m.SLID, m.PathBits
	if m.Solicited {
		e.Solicited = 1
	}
	c.port.RecvCQ.Push(e)
}

// ReceiveFailed completes a receive in error.
func (c *Completions) ReceiveFailed(wrid uint64, s queue.Status, d reason.Detail) {
	e := c.fill(wrid, queue.WCRecv, s, d)
	if peer := c.said(s); peer.Reason != reason.None {
		e.SetReasons(d, peer)
	}
	c.port.RecvCQ.Push(e)
}

// FlushReceives completes at most limit of the receives that a private queue holds now
// with WR_FLUSH_ERR, and reports whether there may be more (IBTA 10.3.1.7). r is
// scratch space.
func (c *Completions) FlushReceives(r *Receive, limit int) (more bool) {
	q := c.port.RQ
	if q == nil || q.Shared() {
		return false
	}
	n := min(q.Len(), limit)
	for i := n; i > 0 && q.Take(r); i-- {
		c.ReceiveFailed(r.WRID, queue.WRFlushErr, c.Flushed())
	}
	return n == limit
}

// DropReceives removes the receives of a private queue without completions (IBTA
// 10.3.1.1). r is scratch space.
func (p *Port) DropReceives(r *Receive) {
	if p.RQ == nil || p.RQ.Shared() {
		return
	}
	for n := p.RQ.Len(); n > 0 && p.RQ.Take(r); n-- {
	}
}

// LastWQE raises the event LAST_WQE_REACHED, once, if the queue pair is on a shared receive
// queue, or an XRC target: in the error state it takes no more receives of that queue, which
// keeps them (IBTA 10.2.9.4, o11-5.2.5). The machines call it after they have completed the
// receive in use.
func (c *Completions) LastWQE() {
	if c.lastWQE || c.port.Aim == nil && (c.port.RQ == nil || !c.port.RQ.Shared()) {
		return
	}
	c.lastWQE = true
	c.port.Host.Event(c.port, EventQPLastWQEReached, c.Flushed())
}
