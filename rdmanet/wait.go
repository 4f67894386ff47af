package rdmanet

import (
	"context"
	"errors"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"softrdma/verbs"
)

// Nobody works for a connection but the calls of its program: they poll its
// completion queue, and one of those that wait sleeps on the completion channel
// for all. A call that takes completions which another one waits for wakes it.
//
// A program that makes no call owes the peer nothing that cannot wait: what the
// peer may still send has its receives posted, acknowledges are the device's,
// and credit is given when something was read. Where that could not be posted
// at once, a timer does it (kick).

// ready reports whether what a side waits for is there.
func (c *Conn) ready(s *side) bool {
	switch s {
	case &c.r:
		return c.rx.Unread() > 0 || !c.life.Readable()
	case &c.w:
		return !c.life.Writable() || c.posted < dataSlots && c.has(s.want)
	default: // closing waits until the peer's device has got everything
		return c.err != nil || c.life.Left() || c.posted+c.controls+c.lasts == 0
	}
}

// A want is what a writer waits for, beside a place in the send queue.
type want uint8

const (
	wantRoom   want = iota // memory to send from, and the peer's to send to
	wantTarget             // the peer's memory
	wantMemory             // this side's
	wantCredit             // a message to the peer
)

func (c *Conn) has(w want) bool {
	switch w {
	case wantTarget:
		return c.tx.Room() > 0
	case wantMemory:
		return c.out.Room(1) > 0
	case wantCredit:
		return c.tx.Credit()
	}
	return c.tx.Room() > 0 && c.out.Room(1) > 0
}

// ended is why a side waits no longer, whatever is there.
func (c *Conn) ended(s *side) error {
	switch {
	case c.closed && s != &c.x:
		return net.ErrClosed
	case s.deadline.passed.Load():
		return os.ErrDeadlineExceeded
	}
	return nil
}

// await waits until the side is ready. The caller holds mu, and again after.
func (c *Conn) await(s *side) error {
	for {
		if err := c.ended(s); err != nil || c.ready(s) {
			return err
		}
		if c.leader == nil {
			c.leader = s
			c.lead(s)
			c.leader = nil
			c.hand()
			continue
		}
		s.waiting = true
		done := s.deadline.context().Done()
		c.mu.Unlock()
		select {
		case <-s.wake:
		case <-done:
		}
		c.mu.Lock()
		s.waiting = false
	}
}

// hand lets another one who waits become the leader.
func (c *Conn) hand() {
	for _, s := range [...]*side{&c.r, &c.w, &c.x} {
		if s.waiting {
			s.tell()
		}
	}
}

// lead waits on the completion queue, by polling and then by sleeping, until
// completions were taken.
func (c *Conn) lead(s *side) {
	if c.poll(s) {
		return
	}
	if c.stale {
		_, _ = c.events.Next(past) // takes an event, if one is there
		c.stale = false
	}
	c.cq.Arm(false)
	c.progress()
	if c.ended(s) != nil || c.ready(s) {
		c.stale = true
		return
	}
	ctx := s.deadline.context()
	c.mu.Unlock()
	_, err := c.events.Next(ctx)
	c.mu.Lock()
	switch {
	case err == nil:
	case errors.Is(err, context.Canceled):
		c.stale = true
	default: // the device is gone
		c.fail(err)
	}
	c.progress()
}

// poll polls for the device's spin time, unless another goroutine polls this
// device already: it receives for the whole device.
func (c *Conn) poll(s *side) bool {
	c.progress()
	if c.ended(s) != nil || c.ready(s) {
		return true
	}
	if c.spin <= 0 || !c.busy.taken.CompareAndSwap(false, true) {
		return false
	}
	defer c.busy.taken.Store(false)
	for start := time.Now(); time.Since(start) < c.spin; {
		c.mu.Unlock()
		runtime.Gosched()
		c.mu.Lock()
		c.progress()
		if c.ended(s) != nil || c.ready(s) {
			return true
		}
	}
	return false
}

// past is a context that has ended.
var past = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// A spinner records whether a goroutine polls a device.
type spinner struct {
	taken atomic.Bool
	dev   *verbs.Device
	conns int
}

var spinners struct {
	sync.Mutex
	of map[*verbs.Device]*spinner
}

func holdSpinner(dev *verbs.Device) *spinner {
	spinners.Lock()
	defer spinners.Unlock()
	s := spinners.of[dev]
	if s == nil {
		if spinners.of == nil {
			spinners.of = make(map[*verbs.Device]*spinner)
		}
		s = &spinner{dev: dev}
		spinners.of[dev] = s
	}
	s.conns++
	return s
}

func (s *spinner) release() {
	spinners.Lock()
	defer spinners.Unlock()
	if s.conns--; s.conns == 0 {
		delete(spinners.of, s.dev)
	}
}
