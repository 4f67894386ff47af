package adapter

import (
	"maps"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"softrdma/internal/adapter/schedule"
	"softrdma/internal/blocking"
	"softrdma/internal/frame"
	"softrdma/internal/link"
	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
)

const (
	neverPolled = -int64(time.Hour)

	// yieldAfter is after how many polls in vain a poller offers its processor
	// to others, who may have to run before anything can come.
	yieldAfter = 8

	// receiveBudget, in batches, and transmitBudget, in packets, bound one round
	// of progress, so that acknowledges and new requests keep each other going.
	// A task that has nothing to send counts for a packet.
	receiveBudget  = 4
	transmitBudget = receiveBudget * link.MaxPackets

	// maxBurst is how many packets of a queue pair leave when it is its turn.
	maxBurst = 2 * link.MaxPackets

	// unlockBudget bounds how long who gives a lane up serves others.
	unlockBudget = 64

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
	index  int // among the device's
	link   link.Waiter
	single bool // Go runs one goroutine at a time
	seat   seat

	// What carries packets; nil and zero where the link carries streams.
	net     frame.Network
	packets link.Packets
	caps    link.Capabilities

	mu      sync.Mutex
	qps     map[uint32]*QP
	gsi     *QP // queue pair 1, which is not in qps; nil in other lanes than its own
	makers  makers
	groups  map[netip.Addr][]*QP
	tasks   schedule.Queue
	flows   map[flowKey]*txFlow
	reply   txFlow // of the answer that is being sent, see replyFlow
	shares  map[qp.Endpoint]*share
	tx      transmitter
	streams *streams // nil where the link carries packets
	sent    []*QP    // unacknowledged queue pairs whose packets wait in tx
	passed  laneSet  // that were handed packets
	strays  strays   // that were taken from inbox
	held    *lane    // of this process, taken to hand it packets
	storing []*QP    // whose stores to other processes may wait
	losses  []memory.Loss
	closed  bool // the link is: nothing more is received or sent

	rx      link.Rx
	in      machine.In
	out     machine.Out
	part    machine.Out   // of a train
	from    *frame.Source // of the batch
	header  []byte        // the frame's, of the packet
	putGRH  machine.GRHWriter
	empty   uint // polls in vain
	drained bool // the link had nothing to receive when last asked
	crowded uint // rounds since then
	bulk    bulk
	middles middles
	reports reports

	gathered int // doorbells that wait, see gathers

	// any goroutine
	bellMu     sync.Mutex
	bells      []*QP
	inbox      strays // that came to other lanes
	rung       atomic.Bool
	polled     atomic.Int64 // when somebody polled last
	pausing    atomic.Bool  // the goroutine stays away for pollers
	attention  chan struct{}
	sleeping   atomic.Int64 // until when the goroutine sleeps; 0 while awake
	pauseTimer *time.Timer
	bed        sync.Mutex     // held by whoever sleeps in the link
	turns      blocking.Turns // of the holder of bed
	napping    atomic.Bool    // a waiter does, or is about to
	waiting    atomic.Int32   // waiters that sleep elsewhere
	overflows  atomic.Bool    // a completion queue overflowed
	closing    atomic.Bool
	stopped    chan struct{}
}

func newLane(d *Device, index int, net frame.Network) *lane {
	x := &lane{
		dev: d, index: index, makers: newMakers(len(d.lanes)), single: runtime.GOMAXPROCS(0) == 1,
		qps: make(map[uint32]*QP), groups: make(map[netip.Addr][]*QP), flows: make(map[flowKey]*txFlow), shares: make(map[qp.Endpoint]*share),
		stopped: make(chan struct{}), from: new(frame.Source),
	}
	if net != nil {
		x.net, x.packets, x.caps = net, net.Link(), net.Link().Capabilities()
		x.link = x.packets
		x.reports.link, _ = x.packets.(link.Reporter)
		x.putGRH = func(b []byte, in *machine.In, length int) {
			net.PutGRH(b, in.Src, in.Dst, frame.Class{TrafficClass: in.TOS, HopLimit: in.TTL}, length)
		}
	} else {
		x.link, x.streams = d.cfg.Streams, newStreams(x, d.cfg.Streams)
	}
	x.tx.init(x)
	if link.LaneOf(gsiQPN, len(d.lanes)) == index {
		x.gsi = newGSI(x)
	}
	if d.cfg.Manual {
		close(x.stopped)
	}
	x.polled.Store(neverPolled)
	x.attention, x.pauseTimer = make(chan struct{}, 1), time.NewTimer(pollPause)
	return x
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
	again := l.empty > 0 // a second look costs less than coming back for it
	for range receiveBudget {
		if !l.receiveBatch(&now) {
			if !again {
				break
			}
			again = false
			continue
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
	for round := 0; ; round++ {
		l.writeBack()
		next := l.next()
		if s := l.sleeping.Load(); s != 0 && int64(next) < s {
			l.sleeping.Store(int64(next))
			l.link.Wake()
		}
		l.mu.Unlock()
		if !l.rung.Load() {
			return
		}
		if round == unlockBudget {
			l.link.Wake() // who sleeps there goes on
			return
		}
		if !l.mu.TryLock() {
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
		if !l.receiveBatch(&now) {
			break
		}
		busy = true
	}
	return l.rest(now) || busy
}

// receiveBatch takes one batch from the link and tells whether there was one.
// Then now is the time after it came: the processor may have been lost since,
// and round trips would come out shorter than the way is.
func (l *lane) receiveBatch(now *time.Duration) bool {
	if l.closed {
		return false
	}
	if l.streams != nil {
		l.drained = !l.streams.receive(*now)
		return !l.drained
	}
	l.rx.Sparse = l.dev.headed.Load() == 0 && !l.dev.Trace.On()
	ok, err := l.packets.Receive(&l.rx)
	if l.drained = err != nil || !ok; l.drained {
		return false
	}
	*now = l.dev.clock()
	l.bulk.add(len(l.rx.Data))
	l.receive(*now, &l.rx)
	return true
}

// rest does what a round of progress does behind receiving.
func (l *lane) rest(now time.Duration) bool {
	if l.closed {
		return false
	}
	l.handleReports(now)
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
	case l.tasks.Ready() > 0 || l.reports.pending || l.overflows.Load() || l.streams.pending():
		return 0
	}
	return l.tasks.NextDue()
}

func (l *lane) expire(now time.Duration) {
	for {
		e := l.tasks.Due(now)
		if e == nil {
			return
		}
		e.Task().Expire(now)
		l.tasks.Set(e, e.Task().Deadline())
	}
}

// transmit lets the ready tasks send in turn and reports whether there were any.
func (l *lane) transmit(now time.Duration) bool {
	if l.closed || l.tasks.Ready() == 0 {
		return false
	}
	l.gathered = 0
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
	l.tx.flush()
	for i, q := range l.sent {
		q.sender.Sent()
		l.tasks.Lower(&q.entry, q.m.Deadline())
		l.sent[i] = nil
	}
	l.sent = l.sent[:0]
	l.release()
	return true
}

// burst sends up to maxBurst packets of a queue pair, and tells how many those
// were and whether it may have more.
func (l *lane) burst(now time.Duration, q *QP) (n int, more bool) {
	l.out.Longest, l.out.Whole = l.longest(q)
	for n < maxBurst {
		l.out.Pieces, l.out.Len, l.out.Path = l.out.Pieces[:0], 0, nil
		if !q.m.Next(now, &l.out) {
			return n, false
		}
		if f := l.flowOf(q, l.out.Path, l.out.DestQPN); f != nil {
			n += l.tx.add(q, f, &l.out)
		} else {
			n++
		}
	}
	return n, true
}

const (
	// gatherBeyond is how many bytes others must have in flight to a peer for a
	// doorbell to wait for theirs, and gatherAtMost bounds how many wait.
	gatherBeyond = 64 << 10
	gatherAtMost = 32
)

// gathers reports whether what was posted to q may wait for what is posted to
// others, so that short messages of many leave as one batch. It may while others
// have much on its way to the same peer: the next poll sends it, or the lane's
// goroutine where none comes, unless that sleeps.
func (l *lane) gathers(q *QP) bool {
	if q.share == nil || q.share.Others(&q.Port) < gatherBeyond || l.gathered == gatherAtMost-1 || l.sleeping.Load() != 0 {
		return false
	}
	l.gathered++
	return true
}

// ring is the doorbell: work was posted to q's send queue, or q's state wants
// it to send.
func (l *lane) ring(q *QP) {
	if l.mu.TryLock() {
		if l.tasks.Push(&q.entry); !l.gathers(q) {
			l.transmit(l.dev.clock())
		}
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
		l.tasks.Push(&q.entry)
		l.bells[i] = nil
	}
	l.bells = l.bells[:0]
	l.inbox, l.strays = l.strays, l.inbox
	l.rung.Store(false)
	l.bellMu.Unlock()
	l.takeStrays()
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
	for range l.tasks.Ready()/(transmitBudget/maxBurst) + 1 {
		if !l.transmit(l.dev.clock()) {
			return
		}
	}
}

// stop ends the lane's goroutine.
func (l *lane) stop() {
	l.mu.Lock()
	l.settle()
	l.unlock()
	l.closing.Store(true)
	l.link.Wake()
	l.call()
	<-l.stopped
}

// close ends the lane, which was stopped.
func (l *lane) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, q := range l.qps {
		q.tellState(qp.Reset) // see StateHint
	}
	l.streams.close(l.dev.clock())
	l.closed = true
	for _, f := range l.flows {
		l.net.Close(f.Flow)
	}
	clear(l.flows)
}
