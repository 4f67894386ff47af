package adapter

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/object"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/sanitize"
)

// loopAfter is the number of empty polls between two completions above which a consumer polls in
// a loop.
const loopAfter = 8

// A CQ is a completion queue. Lanes produce, one caller at a time consumes.
type CQ struct {
	dev   *Device
	owner object.Owner
	uses  object.Uses // queue pairs

	mu         sync.Mutex // producers, resize
	ring       atomic.Pointer[queue.CompletionRing]
	overflowed atomic.Bool

	arm     *atomic.Uint32 // queue.ArmSolicited and queue.ArmCompletion: armed, or the ring's
	armed   atomic.Uint32
	channel *Channel

	lanes atomic.Uint64 // laneSet: they complete here, or did
	turn  atomic.Uint32 // which of them is to progress first

	emptyPolls atomic.Uint32 // since the last completion

	Owner any // the driver's own object
}

// CreateCQ makes a completion queue with room for depth completions; events go
// to the channel, which may be nil.
func (d *Device) CreateCQ(depth int, ch *Channel) (*CQ, error) {
	return d.CreateCQFor(object.Owner{}, queue.NewCompletionRing(depth), ch)
}

// CreateCQFor is CreateCQ for a program, with a ring of the caller's, from which the program consumes.
func (d *Device) CreateCQFor(owner object.Owner, ring *queue.CompletionRing, ch *Channel) (*CQ, error) {
	if err := d.Closed(); err != nil {
		return nil, err
	}
	if ch != nil && !ch.uses.Hold() {
		return nil, fmt.Errorf("completion channel: %w", ErrDestroyed)
	}
	if err := d.add(&d.counts.CQ, 1); err != nil {
		if ch != nil {
			ch.uses.Drop()
		}
		return nil, err
	}
	c := &CQ{dev: d, owner: owner, channel: ch, arm: ring.Arm()}
	if c.arm == nil {
		c.arm = &c.armed
	}
	c.ring.Store(ring)
	d.mu.Lock()
	d.inventory.cqs.add(c)
	d.mu.Unlock()
	d.cfg.Sanitizer.CreatedCQ(c, sanitize.Completions{Ring: c.Ring, Events: ch != nil, Channel: ch, Hidden: c.arm != &c.armed})
	return c, nil
}

// Destroy destroys the queue. It is refused while queue pairs use it.
func (c *CQ) Destroy() error {
	if did, err := c.uses.End("completion queue"); !did {
		return err
	}
	c.dev.cfg.Sanitizer.Destroyed(c)
	c.dev.mu.Lock()
	delete(c.dev.inventory.cqs.all, c)
	c.dev.mu.Unlock()
	c.dev.dropEvents(c)
	if c.channel != nil {
		c.channel.drop(c)
		c.channel.uses.Drop()
	}
	return c.dev.add(&c.dev.counts.CQ, -1)
}

// Depth returns how many completions the queue holds.
func (c *CQ) Depth() int { return c.ring.Load().Depth() }

// Resize gives the queue another depth and keeps what is in it. The caller keeps consumers away.
func (c *CQ) Resize(depth int) error { return c.ResizeOn(queue.NewCompletionRing(depth)) }

// ResizeOn is Resize to a ring of the caller's, which is empty.
func (c *CQ) ResizeOn(r *queue.CompletionRing) error {
	if err := c.Gone(); err != nil {
		return err
	}
	c.dev.Barrier() // doorbells that rang before complete what they can
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.ring.Load()
	if n := old.Len(); n > r.Depth() {
		return fmt.Errorf("completion queue cannot shrink to %d: it holds %d completions", r.Depth(), n)
	}
	r.Append(old)
	if c.overflowed.Load() {
		r.SetState(1)
	}
	c.ring.Store(r)
	return nil
}

// Push implements machine.CQ.
func (c *CQ) Push(e *queue.CQE) {
	c.mu.Lock()
	if c.emptyPolls.Load() != 0 { // a stream of completions stores nothing
		c.emptyPolls.Store(0)
	}
	r := c.ring.Load()
	if c.overflowed.Load() || !r.Put(e) {
		first := !c.overflowed.Swap(true)
		r.SetState(1)
		c.mu.Unlock()
		if first {
			c.overflow(r.Depth())
		}
		return
	}
	c.mu.Unlock()
	if a := c.arm.Load(); a != queue.Disarmed {
		c.fire(a, e)
	}
}

// overflow reports an overrun (IBTA 11.6.3.2: CQ error, an affiliated event). The queue
// takes no more completions. Its queue pairs belong to lanes, of which the caller has at most
// one, so each lane moves its own to the error state on its next turn (failOverflowed).
func (c *CQ) overflow(depth int) {
	d := reason.Detail{Reason: reason.CQOverflow, Expected: uint64(depth), Found: uint64(depth + 1)}
	c.dev.Trace.Refuse(0, d)
	c.dev.Raise(machine.EventCQErr, c, d)
	for _, l := range c.dev.lanes {
		l.overflows.Store(true)
		if len(c.dev.lanes) > 1 {
			l.link.Wake() // the queue's producer has one of them only
		}
	}
}

// failOverflowed moves the queue pairs of overflowed completion queues to the error state
// (IBTA 11.6.3.2).
func (l *lane) failOverflowed(now time.Duration) {
	for _, n := range slices.Sorted(maps.Keys(l.qps)) { // in the same order in every run
		q := l.qps[n]
		if q.sendCQ.overflowed.Load() || q.receiveCQ().overflowed.Load() {
			q.fail(now, reason.Detail{Reason: reason.CQOverflow})
		}
	}
}

// fire delivers the event that the queue was armed for.
func (c *CQ) fire(armed uint32, e *queue.CQE) {
	// An unsuccessful completion counts as solicited (IBTA 11.4.2.2).
	if armed&queue.ArmCompletion == 0 && (armed&queue.ArmSolicited == 0 || e.Solicited == 0 && e.Status == queue.Success) {
		return
	}
	if c.channel != nil && c.arm.CompareAndSwap(armed, queue.Disarmed) {
		c.channel.push(c)
	}
}

// Arm asks for one event at the next completion, or only at the next solicited
// or failed one. Completions that are already there raise none: poll after Arm.
func (c *CQ) Arm(solicitedOnly bool) {
	c.dev.cfg.Sanitizer.Arming(c, c.arm.Load() != queue.Disarmed)
	if solicitedOnly {
		c.arm.CompareAndSwap(queue.Disarmed, queue.ArmSolicited)
	} else {
		c.arm.Store(queue.ArmCompletion)
	}
}

// Gone returns ErrClosed or ErrDestroyed once there is no queue any more.
func (c *CQ) Gone() error {
	if c.uses.Gone() {
		return fmt.Errorf("completion queue: %w", ErrDestroyed)
	}
	select {
	case <-c.dev.done:
		return ErrClosed
	default:
		return nil
	}
}

// Pass passes an event on to the next waiter on the channel: one event may be about more
// than one completion.
func (c *CQ) Pass() { c.channel.push(c) }

// Err returns ErrOverflow once the queue has overflowed.
func (c *CQ) Err() error {
	if c.overflowed.Load() {
		return object.Overflowed(c.Depth())
	}
	return nil
}

// Ring returns the present ring, for the consumer.
func (c *CQ) Ring() *queue.CompletionRing { return c.ring.Load() }

// Progress makes the device progress on the caller's goroutine. A consumer that found
// the ring empty calls it, and says whether it may lose its processor meanwhile.
func (c *CQ) Progress(mayYield bool) {
	d := c.dev
	mayYield = c.polledInLoop() && mayYield
	if len(d.lanes) == 1 {
		d.lanes[0].Poll(mayYield)
		return
	}
	sources := laneSet(c.lanes.Load())
	if sources == 0 {
		sources = d.lanes[0].bit()
	}
	first, rest := sources.from(int(c.turn.Add(1)) % len(d.lanes))
	for _, s := range [...]laneSet{first, rest} {
		for s != 0 {
			if s.next(d).Poll(mayYield); c.ring.Load().Len() > 0 {
				return
			}
		}
	}
}

// Near reports whether completions come from peers on this host, through memory: a poll is a few
// loads then, and takes no packets that would better gather.
func (c *CQ) Near() bool {
	for s := laneSet(c.lanes.Load()); s != 0; {
		if s.next(c.dev).near.Load() {
			return true
		}
	}
	return false
}

// polledInLoop counts a poll of the empty queue, and reports whether its consumer seems to poll
// in a loop. One that sleeps until an event polls an empty queue once for each event. It must not
// yield: on a busy processor, a thread that yields waits for the time slices of all others, and
// one that sleeps does not.
func (c *CQ) polledInLoop() bool { return c.emptyPolls.Add(1) > loopAfter }

// serve notes that queue pairs of a lane complete here.
func (c *CQ) serve(l *lane) {
	c.lanes.Or(uint64(l.bit()))
	if c.channel != nil {
		c.channel.lanes.Or(uint64(l.bit()))
	}
}
