package adapter

import (
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"softrdma/internal/adapter/deferral"
	"softrdma/internal/adapter/schedule"
	"softrdma/internal/adapter/share"
	"softrdma/internal/adapter/stream"
	"softrdma/internal/congestion"
	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/sanitize"
)

// MaxReadAtomic is how many READs and atomics a queue pair may have in flight,
// and how many of its peer's it holds resources for.
const MaxReadAtomic = 128

// A QP is a queue pair: a protocol machine with its rings, on a lane. The
// driver posts to SQ and RQ and rings Doorbell.
type QP struct {
	machine.Port
	Recv  *queue.RecvRing // private receive queue, nil with an SRQ
	Owner any             // the driver's own object

	pd        *PD
	lane      *lane
	packets   *packetLane // lane, if it carries packets
	transport *machine.Transport
	entry     schedule.Entry       // among the lane's tasks
	level     uint8                // of the last packet, see link.Limited
	failing   qp.State             // to which a rule of faults moves it next, RESET for none; the lane's
	m         machine.Machine      // an idle until there is something to do
	can       machine.Capabilities // of m
	sendCQ    *CQ
	recvCQ    *CQ
	srq       *SRQ
	xrcd      *XRCD // of an XRC target
	target    *SRQ  // of an XRC target: the queue that it is aimed at, nil if there is none; the lane's

	methods
	sharedRecv bool // another process posts to Recv, without a doorbell

	deferral deferral.Offer

	sanitizer *sanitize.Sanitizer

	// The lane's:
	flow     *txFlow // of a connection
	inMemory bool    // the peer of a connection sends through memory
	followed
	sharing   share.Member // of what may be in flight to its peer
	groups    []netip.Addr
	sendError reason.Detail // why the system refused to send last
	look      *look         // in ERR, if another process posts to Recv

	rung  atomic.Bool
	state atomic.Uint32 // copy of Attr.State for StateHint
}

// methods are how a queue pair sends.
type methods struct {
	control  congestion.Kind
	recovery congestion.Recovery
}

// release ends the use of everything that the queue pair is made of.
func (q *QP) release() {
	q.sendCQ.uses.Drop()
	q.recvCQ.uses.Drop()
	if q.srq != nil {
		q.srq.uses.Drop()
	}
	q.pd.remove(&q.pd.dev.counts.QP)
}

// Push implements machine.CQ for the send side. If the system refused to send the
// packets of a request whose retries are exceeded, the completion names that refusal.
func (q *QP) Push(e *queue.CQE) {
	q.stored(e)
	q.sanitizer.Completed(q, e)
	if s := q.lane.latencies; s != nil && s.q == q {
		s.completed(e)
	}
	if e.Status != queue.Success {
		q.revoke()
	}
	if e.Status == queue.RetryExcErr && q.sendError.Reason != reason.None {
		_, peer := e.Reasons()
		e.SetReasons(q.sendError, peer)
	}
	q.complete(q.sendCQ, e)
}

// received is machine.CQ for the receive side.
type received struct{ q *QP }

// Push implements machine.CQ.
func (r received) Push(e *queue.CQE) {
	r.q.stored(e)
	r.q.sanitizer.Completed(r.q, e)
	r.q.complete(r.q.receiveCQ(), e)
}

// Posted returns the length of the message posted last, 0 if all have completed.
func (q *QP) Posted() int { return q.SQ.Posted() }

// SetDeferral gives the queue pair, before anything is posted to it, the place in which the
// program finds its name when it may leave out doorbells.
func (q *QP) SetDeferral(p *deferral.Place, name uint64) { q.deferral = deferral.New(p, name) }

// Doorbell tells the device that the send queue has new requests.
func (q *QP) Doorbell() {
	q.posted()
	q.lane.ring(q)
}

// Modify changes the attributes that mask names, of which the state is one
// when it changes (IBTA 11.2.5.2). Nothing is changed when it fails.
func (q *QP) Modify(mask qp.Mask, a *qp.Attr) error {
	l := q.lane
	if mask&qp.MaskAV != 0 {
		if err := l.dev.resolve(&a.Path, a.DestQPN); err != nil {
			return err
		}
	}
	l.Lock()
	defer l.Unlock()
	if err := q.gone(); err != nil {
		return err
	}
	from := q.Attr.State
	to := from
	if mask&qp.MaskState != 0 {
		to = a.State
	}
	if mask&qp.MaskCurState != 0 && a.CurState != from {
		return fmt.Errorf("queue pair is in state %v, cur_state says %v", from, a.CurState)
	}
	mask, err := q.check(from, to, mask)
	if err != nil {
		return err
	}
	if err := qp.Validate(mask, a); err != nil {
		return err
	}
	if err := q.checkPort(mask, a); err != nil {
		return err
	}
	if r, d := a.MaxRdAtomic, a.MaxDestRdAtomic; mask&qp.MaskMaxRdAtomic != 0 && r > MaxReadAtomic ||
		mask&qp.MaskMaxDestRdAtomic != 0 && d > MaxReadAtomic {
		return fmt.Errorf("READs and atomics in flight: at most %d each way, found max_rd_atomic %d, max_dest_rd_atomic %d", MaxReadAtomic, r, d)
	}
	if err := q.openFlow(mask, a); err != nil {
		return err
	}
	if to == qp.Err || to == qp.Reset {
		l.settle()
	}
	if to == qp.Err {
		q.listen()
	}
	q.Attr.Apply(mask, a)
	q.enter(l.dev.clock(), from)
	return nil
}

// openFlow opens the flow of a connection whose path is being set.
func (q *QP) openFlow(mask qp.Mask, a *qp.Attr) error {
	if !q.transport.Connected || mask&qp.MaskAV == 0 {
		return nil
	}
	dest := q.Attr.DestQPN
	if mask&qp.MaskDestQPN != 0 {
		dest = a.DestQPN
	}
	f, err := q.packets.flows.get(&a.Path, q.QPN, dest)
	if err != nil {
		return fmt.Errorf("no path to %v: %w", a.Path.Dst, err)
	}
	f.uses++
	q.closeFlow()
	q.flow = f
	q.entry.SetGroup(&f.group)
	if q.transport.Acknowledged {
		q.lane.shares.Join(&q.sharing, a.Path.Dst, q.packets.flows.shareLimit())
	}
	return nil
}

func (q *QP) closeFlow() {
	if f := q.flow; f != nil {
		q.revoke()
		if q.fragmented {
			q.packets.flows.fragment(q, false)
		}
		q.flow = nil
		q.entry.SetGroup(nil)
		f.uses--
		q.packets.flows.close(f)
		q.lane.shares.Leave(&q.sharing)
	}
}

// enter follows a transition out of the state from.
func (q *QP) enter(now time.Duration, from qp.State) {
	l := q.lane
	q.publishState(q.Attr.State)
	if q.Attr.State != from {
		l.dev.StateChanged(&q.Port, from, reason.Detail{})
		q.m.Transition(now, from)
	}
	if q.Attr.State == qp.Reset {
		q.SQ.Release(q.SQ.Producer())
		if q.Recv != nil {
			q.Recv.Release(q.Recv.Producer())
		}
		q.sanitizer.Emptied(q)
		l.latencies.forget(q)
		q.closeFlow()
		q.sendError = reason.Detail{}
	}
	l.shares.Count(&q.sharing, q.can.InFlight)
	l.tasks.Set(&q.entry, q.deadline())
	l.tasks.Push(&q.entry)
	l.Transmit(now)
}

// fail moves the queue pair to the error state for a reason of the adapter.
func (q *QP) fail(now time.Duration, why reason.Detail) {
	from := q.Attr.State
	if from == qp.Reset || from == qp.Err {
		return
	}
	q.Attr.State = qp.Err
	q.lane.dev.Raise(machine.EventQPFatal, q, why)
	q.enter(now, from)
}

// gone returns ErrDestroyed or ErrClosed if the queue pair cannot be used any more. The
// caller has the lane.
func (q *QP) gone() error {
	switch {
	case q.entry.Removed():
		return fmt.Errorf("queue pair %#06x: %w", q.QPN, ErrDestroyed)
	case q.lane.closed:
		return ErrClosed
	}
	return nil
}

// Gone returns ErrClosed or ErrDestroyed once there is no queue pair any more.
func (q *QP) Gone() error {
	q.lane.Lock()
	defer q.lane.Unlock()
	return q.gone()
}

// publishState shows the state to those who post.
func (q *QP) publishState(s qp.State) {
	q.deferral.End()
	q.state.Store(uint32(s))
	q.SQ.SetState(uint32(s))
}

// StateHint returns the state as it was a moment ago, without waiting for the lane. It
// returns RESET, in which nothing can be posted, once the queue pair or its device is
// gone.
func (q *QP) StateHint() qp.State { return qp.State(q.state.Load()) }

// Query returns a copy of the attributes.
func (q *QP) Query() qp.Attr {
	q.lane.Lock()
	defer q.lane.Unlock()
	return q.Attr
}

// Device returns the queue pair's device.
func (q *QP) Device() *Device { return q.pd.dev }

// SRQ returns the shared receive queue, nil if there is none.
func (q *QP) SRQ() *SRQ { return q.srq }

// Destroy destroys the queue pair. Work requests that have not completed never will.
func (q *QP) Destroy() error {
	l := q.lane
	l.Lock()
	if q.entry.Removed() {
		l.Unlock()
		return nil
	}
	l.settle()
	if x, ok := q.m.(*stream.QP); ok {
		x.Release(l.dev.clock())
	}
	for len(q.groups) > 0 {
		q.detach(q.groups[0])
	}
	q.sanitizer.Destroyed(q)
	if from := q.Attr.State; from != qp.Reset && q.packets != nil { // the machine frees what the lane lends it
		q.Attr.State = qp.Reset
		q.m.Transition(l.dev.clock(), from)
	}
	q.closeFlow()
	l.tasks.Remove(&q.entry)
	q.publishState(qp.Reset)
	delete(l.qps, q.QPN)
	l.dev.pairs.Forget(q.QPN)
	l.objects.forget(q)
	l.latencies.forget(q)
	if !q.transport.Connected {
		l.dev.headed.Add(-1)
	}
	l.Unlock()
	q.pd.dev.dropEvents(q)
	q.release()
	return nil
}
