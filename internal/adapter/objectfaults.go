package adapter

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"softrdma/faults"
	"softrdma/internal/frame"
	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
)

// objectFaults are what rules of faults do to the objects of a lane.
type objectFaults struct {
	failing []*QP         // that a completion has made fail, in the lane's next turn
	held    []heldBack    // completions that come late, the oldest first
	due     time.Duration // of the first lane: when a rule's time comes, negative for never

	pending atomic.Bool // any of these, or effects

	mu      sync.Mutex
	effects []faults.Effect // for the lane's objects, from any goroutine
}

// heldBack is a completion that comes late.
type heldBack struct {
	at time.Duration
	q  *QP
	to *CQ
	e  queue.CQE
}

// complete pushes a completion of the queue pair, as rules have it.
func (q *QP) complete(to *CQ, e *queue.CQE) {
	l := q.lane
	var late time.Duration
	if f := q.lane.dev.cfg.Faults; f.OnCompletions() && e.Status == queue.Success {
		now := l.dev.clock()
		v := f.Completion(now, faults.CompletionFacts{QPN: e.QPN, Opcode: uint8(e.Op), Status: uint8(e.Status), Size: int(e.ByteLen)})
		if v.Action != "" {
			l.dev.injected(q.QPN, &v)
		}
		switch v.Action {
		case faults.Complete:
			q.spoil(e, queue.Status(v.Status), v.Rule)
		case faults.Withhold:
			late = now + v.Time
		}
	}
	if e.Status == queue.Success && (q.failing == qp.Err || q.failing == qp.SQE && e.Op < queue.WCRecv) {
		q.spoil(e, queue.WRFlushErr, 0) // it was behind one that has failed
	}
	q.completed(e)
	if l.hold(q, to, e, late) {
		return
	}
	to.Push(e)
}

// spoil makes a successful completion an unsuccessful one, after which the queue pair fails (IBTA 10.3.1.7).
func (q *QP) spoil(e *queue.CQE, status queue.Status, rule int) {
	if status == queue.Success {
		return
	}
	e.Status, e.Reason, e.Expected, e.Found = status, reason.FaultInjected, uint64(rule+1), uint64(status)
	e.Flags, e.ByteLen = 0, 0
	if q.failing == qp.Reset {
		o := &q.lane.objects
		o.failing = append(o.failing, q)
		o.pending.Store(true)
	}
	if q.failing != qp.Err {
		q.failing = q.afterError(e.Op)
	}
}

// afterError returns the state after an unsuccessful completion: the send queue of an unreliable queue pair waits
// in SQE (IBTA 10.3.1.6).
func (q *QP) afterError(op queue.WCOp) qp.State {
	if op < queue.WCRecv && (q.Type == qp.UC || q.Type == qp.UD) {
		return qp.SQE
	}
	return qp.Err
}

// hold keeps a completion until a time. One behind another that its queue waits for waits as well. It reports
// whether it did.
func (l *lane) hold(q *QP, to *CQ, e *queue.CQE, until time.Duration) bool {
	held := &l.objects.held
	if until == 0 && len(*held) == 0 {
		return false
	}
	for i := range *held {
		if h := &(*held)[i]; h.to == to {
			until = max(until, h.at)
		}
	}
	if until == 0 {
		return false
	}
	*held = append(*held, heldBack{until, q, to, *e})
	l.objects.pending.Store(true)
	slices.SortStableFunc(*held, func(a, b heldBack) int { return int(a.at - b.at) })
	return true
}

// forget drops the completions of a queue pair that is being destroyed.
func (o *objectFaults) forget(q *QP) {
	o.held = slices.DeleteFunc(o.held, func(h heldBack) bool { return h.q == q })
	o.failing = slices.DeleteFunc(o.failing, func(x *QP) bool { return x == q })
}

// actOnObjects does what is due.
func (l *lane) actOnObjects(now time.Duration) {
	o := &l.objects
	for len(o.held) > 0 && o.held[0].at <= now {
		h := o.held[0]
		o.held = o.held[1:]
		h.to.Push(&h.e)
	}
	for len(o.failing) > 0 {
		q := o.failing[0]
		o.failing = o.failing[1:]
		q.follow(now, q.failing)
	}
	if l.index == 0 && o.due >= 0 && o.due <= now {
		l.dev.takeDueFaults(now)
	}
	o.mu.Lock()
	effects := o.effects
	o.effects = nil
	o.mu.Unlock()
	for _, v := range effects {
		l.apply(now, v)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pending.Store(len(o.held) > 0 || len(o.failing) > 0 || len(o.effects) > 0 || l.index == 0 && o.due >= 0)
}

// objectsDue returns when actOnObjects has something to do.
func (l *lane) objectsDue() time.Duration {
	o := &l.objects
	next := machine.Never
	if len(o.held) > 0 {
		next = o.held[0].at
	}
	o.mu.Lock()
	if len(o.failing) > 0 || len(o.effects) > 0 {
		next = 0
	}
	o.mu.Unlock()
	if l.index == 0 && o.due >= 0 {
		next = min(next, o.due)
	}
	return next
}

// follow moves a queue pair that a rule has made fail to the state after that.
func (q *QP) follow(now time.Duration, to qp.State) {
	q.failing = qp.Reset
	from := q.Attr.State
	if from == qp.Reset || from == qp.Err || to == qp.SQE && from != qp.RTS {
		return
	}
	q.Attr.State = to
	q.enter(now, from)
}

// takeDueFaults executes rules whose time has come. The caller has the first lane.
func (d *Device) takeDueFaults(now time.Duration) {
	for {
		v, next := d.cfg.Faults.Due(now)
		d.lanes[0].objects.due = next
		if v.Action == "" {
			return
		}
		d.injected(0, &v)
		switch v.Action {
		case faults.PortDown:
			d.setPort(false)
		case faults.PortUp:
			d.setPort(true)
		}
		switch {
		case v.Action != faults.Event || affiliated(machine.Event(v.Event)):
			for _, l := range d.lanes {
				l.objects.mu.Lock()
				l.objects.effects = append(l.objects.effects, v)
				l.objects.pending.Store(true)
				l.objects.mu.Unlock()
				if l.index > 0 {
					l.link.Wake()
				}
			}
		default:
			d.Raise(machine.Event(v.Event), nil, faultDetail(v.Rule))
		}
	}
}

// timeFaults follows new rules: those of a time begin now. It is called without a lane.
func (d *Device) timeFaults() {
	if !d.cfg.Faults.OnTime() {
		return
	}
	l := d.lanes[0]
	l.Lock()
	l.objects.due = 0
	l.objects.pending.Store(true)
	l.Unlock()
	l.link.Wake()
}

// affiliated reports whether an event concerns a queue or queue pair. Those of a fatal error do as well: queue
// pairs end with their device.
func affiliated(e machine.Event) bool {
	return e <= machine.EventDeviceFatal || e == machine.EventSRQErr || e == machine.EventSRQLimitReached || e == machine.EventQPLastWQEReached
}

// apply raises an event of the lane's objects: of the rule's queue pair, or else of each.
func (l *lane) apply(now time.Duration, v faults.Effect) {
	if v.Action != faults.Event {
		if p := l.dev.packets; p != nil {
			p[l.index].flows.reroute()
		}
		return
	}
	event, why := machine.Event(v.Event), faultDetail(v.Rule)
	if event == machine.EventDeviceFatal && l.index == 0 {
		l.dev.Raise(event, nil, why)
	}
	number := uint32(0)
	if all := l.dev.cfg.Faults.Rules().Rules; v.Rule < len(all) {
		number = all[v.Rule].Select.QP
	}
	for _, n := range slices.Sorted(maps.Keys(l.qps)) {
		q := l.qps[n]
		if number != 0 && n != number {
			continue
		}
		switch event {
		case machine.EventCQErr:
			l.dev.Raise(event, q.sendCQ, why)
		case machine.EventSRQErr, machine.EventSRQLimitReached:
			if q.srq != nil {
				l.dev.Raise(event, q.srq, why)
			}
		case machine.EventDeviceFatal:
			q.follow(now, qp.Err)
		case machine.EventQPFatal, machine.EventQPReqErr, machine.EventQPAccessErr:
			l.dev.Raise(event, q, why)
			q.follow(now, qp.Err)
		default:
			l.dev.Raise(event, q, why)
		}
	}
}

// faultDetail is the reason of what a rule does.
func faultDetail(rule int) reason.Detail { return hitEvent(0, 1, rule).Detail }

// injected counts and traces a hit.
func (d *Device) injected(qpn uint32, v *faults.Effect) {
	e := hitEvent(qpn, 1, v.Rule)
	if d.Trace.On() {
		e.Fault = v.Where()
	}
	d.Trace.Inject(&e)
}

// FailCall returns the error that a rule makes a call fail with, by libibverbs' name of it, nil if none does.
func (d *Device) FailCall(name string) error {
	if !d.cfg.Faults.OnCalls() {
		return nil
	}
	v := d.cfg.Faults.Call(d.clock(), name)
	if v.Action == "" {
		return nil
	}
	d.injected(0, &v)
	return &reason.Error{Detail: faultDetail(v.Rule), Text: fmt.Sprintf("%s: fault of rule %d", name, v.Rule+1), Cause: v.Errno}
}

// RejectRequest returns the reason for which a rule rejects a connection request of a peer, 0 if none does.
func (d *Device) RejectRequest(peer netip.Addr) uint16 {
	if d.cfg.Faults == nil {
		return 0
	}
	v := d.cfg.Faults.Connection(d.clock(), "REQ", peer.String())
	if v.Action == "" {
		return 0
	}
	d.injected(0, &v)
	return v.Reason
}

// setPort takes the port down or up: while it is down nothing leaves it.
func (d *Device) setPort(up bool) {
	event := machine.EventPortErr
	if up {
		event = machine.EventPortActive
	}
	if d.portDown.Swap(!up) == up {
		d.Raise(event, nil, reason.Detail{Reason: reason.FaultInjected})
	}
}

// PortDown reports whether a rule has taken the port down.
func (d *Device) PortDown() bool { return d.portDown.Load() }

// A downRoute loses packets, because the port is down.
type downRoute struct{ route }

// Prepare implements route.
func (r *downRoute) Prepare(q *QP, o *machine.Out) {
	r.route.Prepare(q, o)
	o.Longest, o.Lossless = 0, false
}

// Send implements route.
func (r *downRoute) Send(_ time.Duration, q *QP, f *txFlow, o *machine.Out, class frame.Class, _ int) int {
	return sendWhole(r, q, f, o, class)
}

// Put implements route.
func (r *downRoute) Put(*packet) {}
