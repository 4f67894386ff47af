package adapter

import (
	"maps"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"softrdma/internal/link"
	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

const (
	// pollGrace is how long after somebody polled the lane's goroutine still
	// leaves the progress to them, and pollPause how long it then stays away.
	pollGrace = 250 * time.Microsecond
	pollPause = 200 * time.Microsecond

	neverPolled = -int64(time.Hour)

	// yieldAfter is after how many polls in vain a poller offers its processor
	// to others, who may have to run before anything can come.
	yieldAfter = 16

	// receiveBudget and transmitBudget bound one round of progress, so that
	// acknowledges and new requests keep each other going.
	receiveBudget  = 4
	transmitBudget = 8

	// overdue is for how many rounds deadlines may wait for a link that always
	// has more to receive: what a deadline waits for may be in it, and repeating
	// what was answered would make the overload worse. Rounds and not a time: a
	// process that was not running finds its deadlines passed and the answers
	// in the link. They are a receive buffer's worth of small packets.
	overdue = 512
)

// A lane owns a link and the queue pairs on it. Everything but the fields
// below "any goroutine" belongs to the holder of mu.
type lane struct {
	dev    *Device
	link   link.Link
	single bool // Go runs one goroutine at a time

	mu      sync.Mutex
	qps     map[uint32]*QP
	gsi     *QP // queue pair 1, which is not in qps
	groups  map[netip.Addr][]*QP
	ready   fifo
	timers  timerHeap
	flows   map[flowKey]*txFlow
	tx      transmitter
	streams *streams // nil where the link carries packets
	sent    []*QP    // unacknowledged queue pairs whose packets wait in tx
	closed  bool     // the link is: nothing more is received or sent

	rx      link.Rx
	in      machine.In
	out     machine.Out
	head    ib.PseudoHeader // of the batch's source and destination
	src     netip.AddrPort
	dst     netip.AddrPort
	empty   uint   // polls in vain
	drained bool   // the link had nothing to receive when last asked
	crowded uint   // rounds since then
	nextID  uint16 // identification expected of the next packet from src
	checker ib.Checker

	// any goroutine
	bellMu     sync.Mutex
	bells      []*QP
	rung       atomic.Bool
	polled     atomic.Int64 // when somebody polled last
	pausing    atomic.Bool  // the goroutine stays away for pollers
	attention  chan struct{}
	sleeping   atomic.Int64 // until when the goroutine sleeps; 0 while awake
	pauseTimer *time.Timer
	bed        sync.Mutex   // held by whoever sleeps in the link
	napping    atomic.Bool  // a waiter does, or is about to
	waiting    atomic.Int32 // waiters that sleep elsewhere
	overflows  atomic.Bool  // a completion queue overflowed
	closing    atomic.Bool
	done       chan struct{}
	stopped    chan struct{}
}

func newLane(d *Device, l link.Link) *lane {
	x := &lane{
		dev: d, link: l, single: runtime.GOMAXPROCS(0) == 1,
		qps: make(map[uint32]*QP), groups: make(map[netip.Addr][]*QP), flows: make(map[flowKey]*txFlow),
		done: make(chan struct{}), stopped: make(chan struct{}),
	}
	x.tx.init(x)
	x.streams = newStreams(x)
	x.gsi = newGSI(x)
	if d.cfg.Manual {
		close(x.stopped)
	}
	x.polled.Store(neverPolled)
	x.attention, x.pauseTimer = make(chan struct{}, 1), time.NewTimer(pollPause)
	return x
}

// run is the lane's own goroutine: it makes progress when nobody polls, and
// sleeps in the kernel when there is nothing to do.
func (l *lane) run() {
	defer close(l.stopped)
	idleSince := time.Duration(-1)
	for !l.closing.Load() {
		now := l.dev.clock()
		if l.away(now) || !l.bed.TryLock() {
			l.pause()
			idleSince = -1
			continue
		}
		l.mu.Lock()
		busy := l.progress()
		deadline := l.next()
		if !busy && idleSince < 0 {
			idleSince = now
		}
		asleep := !busy && now-idleSince >= l.dev.cfg.Spin
		if asleep {
			l.sleeping.Store(int64(deadline))
		}
		l.unlock()
		if busy {
			idleSince = -1
		}
		if asleep && !l.closing.Load() {
			l.wait(deadline)
			l.sleeping.Store(0)
			idleSince = -1
		}
		l.bed.Unlock()
	}
}

// away tells whether somebody else makes the lane progress: a poller, or a
// waiter that sleeps in the lane goroutine's place.
func (l *lane) away(now time.Duration) bool {
	return l.napping.Load() || now-time.Duration(l.polled.Load()) < pollGrace
}

// pause stays away from the lane for pollPause, or until a poller or waiter
// gives up. While a waiter naps the timer is stopped; rise starts it.
func (l *lane) pause() {
	l.pausing.Store(true)
	if now := l.dev.clock(); l.away(now) && !l.closing.Load() {
		if !l.napping.Load() {
			l.pauseTimer.Reset(pollPause)
		}
		select {
		case <-l.attention:
		case <-l.pauseTimer.C:
		}
		l.pauseTimer.Stop()
	}
	l.pausing.Store(false)
}

// attend tells that whoever polled so far goes to sleep until an event: the
// lane's goroutine makes progress from now on.
func (l *lane) attend() {
	l.polled.Store(neverPolled)
	l.call()
}

// call ends the present pause of the lane's goroutine.
func (l *lane) call() {
	if l.pausing.Load() {
		select {
		case l.attention <- struct{}{}:
		default:
		}
	}
}

func (l *lane) wait(deadline time.Duration) {
	d := time.Duration(-1)
	if deadline != machine.Never {
		d = max(deadline-l.dev.clock(), 0)
	}
	if err := l.link.Wait(d); err != nil && !l.closing.Load() {
		// A link that cannot wait any more ends the port, not the process.
		l.dev.Raise(machine.EventDeviceFatal, nil, reason.Detail{Reason: reason.SendFailed})
		l.closing.Store(true)
		l.mu.Lock()
		for _, q := range l.qps { // who waits for a completion gets a flushed one
			q.fail(l.dev.clock(), reason.Detail{Reason: reason.SendFailed})
		}
		l.unlock()
	}
}

// poll is progress on the goroutine of somebody who waits for a completion, or
// for a peer's WRITE to show in memory. It returns as soon as packets came:
// what is to be sent then, acknowledges mostly, leaves together with what the
// consumer posts in answer, or with the next poll, at the latest when the
// lane's goroutine finds that nobody polls. What the poll before left, others'
// doorbells and timers are not put off again: a consumer that finds packets
// with each poll would starve them.
func (l *lane) poll() {
	now := l.dev.clock()
	l.polled.Store(int64(now)) // the lane's goroutine leaves the next round to us
	if !l.mu.TryLock() {
		// The holder may have been preempted; spinning would keep it so.
		l.yield()
		return
	}
	busy := l.takeBells()
	late := l.next() <= now
	for range receiveBudget {
		if !l.receiveBatch(now) {
			break
		}
		if busy = true; !late {
			l.empty = 0
			l.unlock()
			return
		}
	}
	if l.rest(now) || busy {
		l.empty = 0
		l.polled.Store(int64(l.dev.clock())) // sending may have taken long
	} else {
		l.empty++
	}
	tired := l.empty%yieldAfter == yieldAfter-1
	l.unlock()
	if tired {
		l.yield()
	}
}

// unlock gives the lane up. Doorbells that rang while it was held are served
// first, so that none waits for somebody to come by.
func (l *lane) unlock() {
	for {
		next := l.next()
		if s := l.sleeping.Load(); s != 0 && int64(next) < s {
			l.sleeping.Store(int64(next))
			l.link.Wake()
		}
		l.mu.Unlock()
		if !l.rung.Load() || !l.mu.TryLock() {
			return
		}
		l.takeBells()
		l.transmit(l.dev.clock())
	}
}

// barrier waits until the present holder of the lane is through: what was made
// invalid before is not in use after.
func (l *lane) barrier() {
	l.mu.Lock()
	l.unlock()
}

// progress runs one round: doorbells, packets in, timers, packets out. It
// tells whether there was anything to do.
func (l *lane) progress() bool {
	if l.closing.Load() {
		return false
	}
	now := l.dev.clock()
	busy := l.takeBells()
	for range receiveBudget {
		if !l.receiveBatch(now) {
			break
		}
		busy = true
	}
	return l.rest(now) || busy
}

// receiveBatch takes one batch from the link and tells whether there was one.
func (l *lane) receiveBatch(now time.Duration) bool {
	if l.closed {
		return false
	}
	if l.streams != nil {
		l.drained = !l.streams.receive(now)
		return !l.drained
	}
	ok, err := l.link.Receive(&l.rx)
	if l.drained = err != nil || !ok; l.drained {
		return false
	}
	l.receive(now, &l.rx)
	return true
}

// rest does what a round of progress does behind receiving.
func (l *lane) rest(now time.Duration) bool {
	if l.closed {
		return false
	}
	if l.crowded++; l.drained || l.crowded > overdue {
		l.crowded = 0
		l.expire(now)
	}
	if l.overflows.Swap(false) {
		l.failOverflowed(now)
	}
	return l.transmit(now)
}

// next is when the lane wants to progress again without a packet.
func (l *lane) next() time.Duration {
	switch {
	case l.closed:
		return machine.Never
	case l.ready.len() > 0 || l.overflows.Load() || l.streams.pending():
		return 0
	}
	return l.timers.next()
}

func (l *lane) expire(now time.Duration) {
	for {
		q := l.timers.due(now)
		if q == nil {
			return
		}
		if q.m.Deadline() <= now {
			q.m.Expire(now)
			l.ready.push(q)
		}
		l.timers.set(q, q.m.Deadline())
	}
}

// transmit lets the ready queue pairs send in turn and tells whether there
// were any.
func (l *lane) transmit(now time.Duration) bool {
	if l.closed || l.ready.len() == 0 {
		return false
	}
	for range transmitBudget {
		q := l.ready.pop()
		if q == nil {
			break
		}
		if l.burst(now, q) {
			l.ready.push(q)
		}
		if q.sender != nil {
			l.sent = append(l.sent, q)
			continue
		}
		l.timers.lower(q, q.m.Deadline())
	}
	l.tx.flush()
	for i, q := range l.sent {
		q.sender.Sent()
		l.timers.lower(q, q.m.Deadline())
		l.sent[i] = nil
	}
	l.sent = l.sent[:0]
	return true
}

// burst sends up to two batches of a queue pair and tells whether it has more.
func (l *lane) burst(now time.Duration, q *QP) (more bool) {
	for range 2 * link.MaxPackets {
		l.out.Pieces, l.out.Len, l.out.Path = l.out.Pieces[:0], 0, nil
		if !q.m.Next(now, &l.out) {
			return false
		}
		if f := l.flowOf(q, l.out.Path); f != nil {
			l.tx.add(q, f, &l.out)
		}
	}
	return true
}

// ring is the doorbell: work was posted to q's send queue, or q's state wants
// it to send.
func (l *lane) ring(q *QP) {
	if l.mu.TryLock() {
		l.ready.push(q)
		l.transmit(l.dev.clock())
		l.unlock()
		return
	}
	if !q.belled.Swap(true) {
		l.bellMu.Lock()
		l.bells = append(l.bells, q)
		l.rung.Store(true)
		l.bellMu.Unlock()
	}
	// The holder may have looked for bells just before this one rang.
	if l.mu.TryLock() {
		l.takeBells()
		l.transmit(l.dev.clock())
		l.unlock()
	}
}

func (l *lane) takeBells() bool {
	if !l.rung.Load() {
		return false
	}
	l.bellMu.Lock()
	for i, q := range l.bells {
		q.belled.Store(false)
		l.ready.push(q)
		l.bells[i] = nil
	}
	l.bells = l.bells[:0]
	l.rung.Store(false)
	l.bellMu.Unlock()
	return true
}

// failOverflowed moves the queue pairs of overflowed completion queues to the
// error state (IBTA 11.6.3.2).
func (l *lane) failOverflowed(now time.Duration) {
	for _, n := range slices.Sorted(maps.Keys(l.qps)) { // in the same order in every run
		q := l.qps[n]
		if q.sendCQ.overflowed.Load() || q.recvCQ.overflowed.Load() {
			q.fail(now, reason.Detail{Reason: reason.CQOverflow})
		}
	}
}

// settle sends what is owed now. poll leaves acknowledges for later, and there
// is no later for a queue pair that goes away: without them the peer's last
// requests would fail though they were executed and completed here.
func (l *lane) settle() {
	if l.closing.Load() {
		return
	}
	for range l.ready.len()/transmitBudget + 1 {
		l.transmit(l.dev.clock())
	}
}

func (l *lane) close() error {
	l.mu.Lock()
	l.settle()
	l.unlock()
	l.closing.Store(true)
	l.link.Wake()
	l.call()
	<-l.stopped
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, q := range l.qps {
		q.state.Store(uint32(qp.Reset)) // see StateHint
	}
	l.streams.close(l.dev.clock())
	l.closed = true
	for _, f := range l.flows {
		l.link.CloseFlow(f.flow)
	}
	clear(l.flows)
	close(l.done)
	return l.link.Close()
}
