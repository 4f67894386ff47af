package adapter

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"

	"softrdma/internal/adapter/drive"
	"softrdma/internal/adapter/schedule"
	"softrdma/internal/adapter/share"
	"softrdma/internal/link"
	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/recorder"
	"softrdma/internal/trace"
)

// A lane owns a link and the queue pairs on it. What the link carries is its carrier's: packets
// (packetLane) or streams (streamLane), of which this is a part. Its driver is its lock, whose
// holder owns everything but the fields below "any goroutine".
type lane struct {
	drive.Driver
	dev     *Device
	index   int // among the device's
	link    link.Waiter
	carrier carrier

	qps     map[uint32]*QP
	tasks   schedule.Queue
	shares  share.Table
	storing []*QP // whose stores to other processes may wait
	losses  []memory.Loss
	closed  bool // the link is: nothing more is received or sent

	drained bool // the link had nothing to receive when last asked
	rounds  uint // since deadlines were looked at
	asked   bool // a peer waits for a response that may not have been sent
	gather  doorbells

	latencies *latencies // nil unless metrics are read

	objects  objectFaults
	watch    *trace.Stream // the device's, while it has a listener
	recorder recorder.Recorder
	traffic  *trace.Traffic // in the device's mirror if there is one, else the carrier's own, apart from other lanes' memory

	// any goroutine
	bells     []*QP       // that have something to send; the driver's doorbell guards it
	overflows atomic.Bool // a completion queue overflowed
	near      atomic.Bool // what came last came from a peer on this host, through memory
}

// A carrier is a lane as its driver sees it, with what depends on what its link carries. All
// methods are called with the lane's lock held.
type carrier interface {
	drive.Port

	// machine makes the machine of a new queue pair.
	machine(q *QP) machine.Machine

	// turn lets a queue pair send. It returns how many packets that were, and reports
	// whether the queue pair may have more.
	turn(now time.Duration, q *QP) (packets int, more bool)

	// flush sends what the tasks' turns have left.
	flush()

	// watchChanged follows a change of lane.watch.
	watchChanged()

	// end ends what peers on this host may do with a region, or with windows if it is nil.
	end(r *memory.Region)

	// endBindings ends what they may do with windows whose bindings requests have ended.
	endBindings()

	// close ends the peers' use of the link.
	close(now time.Duration)
}

// init prepares a lane. Its carrier is complete, and w waits for its link.
func (l *lane) init(c carrier, w link.Waiter, kernel bool) {
	l.carrier = c
	l.qps = make(map[uint32]*QP)
	l.shares.Init(&l.tasks, l.dev.clock)
	l.Driver.Init(drive.Config{Port: c, Waiter: w, Clock: l.dev.clock, Spin: l.dev.cfg.Spin, Manual: l.dev.cfg.Manual, Kernel: kernel})
}

// settle sends what is owed now. Poll postpones acknowledges. Before a queue pair is
// destroyed they must be sent: without them the peer's last requests would fail although
// they were executed and completed here.
func (l *lane) settle() {
	if l.Stopping() {
		return
	}
	for range l.tasks.Ready()/(transmitBudget/maxBurst) + 1 {
		if !l.Transmit(l.dev.clock()) {
			return
		}
	}
}

// stop ends the lane's worker.
func (l *lane) stop() {
	l.Lock()
	l.settle()
	l.Unlock()
	l.Driver.Stop()
}

// close ends the lane, which was stopped.
func (l *lane) close() {
	l.Lock()
	defer l.Unlock()
	for _, q := range l.qps {
		q.publishState(qp.Reset) // see StateHint
	}
	l.carrier.close(l.dev.clock())
	l.closed = true
}

// place gives a new queue pair a number and a machine on the lane.
func (l *lane) place(q *QP) (err error) {
	l.Lock()
	defer l.Unlock()
	if l.closed {
		return ErrClosed
	}
	free := func(qpn uint32) bool { return l.qps[qpn] == nil }
	if q.QPN, err = l.dev.share.Draw(l.index, len(l.qps), free, l.dev.cfg.Random); err != nil {
		return fmt.Errorf("%w: %w", err, syscall.ENOMEM)
	}
	q.sendCQ.serve(l)
	q.recvCQ.serve(l)
	q.setMachine(l.carrier.machine(q))
	if !q.transport.Connected {
		q.Attr.PathMTU = l.dev.MTU()
		l.dev.headed.Add(1)
	}
	l.qps[q.QPN] = q
	return nil
}

// received follows packets that q's machine took.
func (l *lane) received(q *QP) {
	l.shares.Count(&q.sharing, q.can.InFlight)
	l.tasks.Push(&q.entry)
	if l.dev.Memory.Deferred() {
		l.stored(q)
	}
}

// Transmit implements drive.Port: it lets the ready tasks send in turn, and reports
// whether there were any.
func (l *lane) Transmit(now time.Duration) bool {
	l.asked = false
	if l.closed || l.tasks.Ready() == 0 {
		return false
	}
	l.gather.sent()
	for budget := transmitBudget; budget > 0; {
		e := l.tasks.Pop()
		if e == nil {
			break
		}
		l.writeBack() // the task may acknowledge what was stored
		n, more := e.Task().Next(now)
		if more {
			l.tasks.Push(e)
		}
		budget -= max(n, 1)
	}
	l.carrier.flush()
	return true
}

// expire handles deadlines that have passed, and completion queues that have overflowed.
func (l *lane) expire(now time.Duration) {
	if l.rounds++; l.drained || l.rounds > overdue {
		l.rounds = 0
		l.tasks.Expire(now)
	}
	if l.overflows.Swap(false) {
		l.failOverflowed(now)
	}
	if l.objects.pending.Load() {
		l.actOnObjects(now)
	}
}

// nextDue is what Next is for every carrier.
func (l *lane) nextDue() time.Duration {
	switch {
	case l.closed:
		return machine.Never
	case l.tasks.Ready() > 0 || l.overflows.Load():
		return 0
	case l.objects.pending.Load():
		return min(l.tasks.NextDue(), l.objectsDue())
	}
	return l.tasks.NextDue()
}

// Overdue implements drive.Port.
func (l *lane) Overdue(now time.Duration) bool { return l.tasks.Overdue(now) }

// Asked implements drive.Port: for a READ or an atomic.
func (l *lane) Asked() bool { return l.asked }

// Release implements drive.Port.
func (l *lane) Release() { l.writeBack() }

// Failed implements drive.Port: the port ends, not the process. A waiter for a
// completion gets a flushed one.
func (l *lane) Failed(err error) {
	d := reason.Detail{Reason: reason.WaitFailed, Expected: 1}
	var no syscall.Errno
	if errors.As(err, &no) {
		d.Found = uint64(no)
	}
	l.dev.Raise(machine.EventDeviceFatal, nil, d)
	for _, q := range l.qps {
		q.fail(l.dev.clock(), d)
	}
}

// watchTrace begins or ends to show packets and completions, as the device's trace has listeners.
func (l *lane) watchTrace() {
	l.watch = nil
	if l.dev.Trace.On() {
		l.watch = l.dev.Trace
	}
	l.carrier.watchChanged()
}
