package rdmanet

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"

	"softrdma/internal/waiting"
	"softrdma/verbs"
)

// A connection has no goroutine. The calls of the program poll its completion
// queue, and one of the waiting calls, the leader, sleeps on the completion channel
// for all of them. A call that takes a completion for another waiting call wakes
// that call.
//
// A program that makes no call delays nothing that its peer needs: receives are
// posted for everything that the peer may still send, the device sends
// acknowledges, and reading gives credit. If the credit message cannot be posted at
// once, a timer posts it later (retry).

// ready reports whether the side can continue.
func (e *endpoint) ready(s *side) bool {
	switch s {
	case &e.r:
		return e.rx.Unread() > 0 || !e.life.Readable()
	case &e.w:
		return !e.life.Writable() || e.posted < dataSlots && e.has(s.want)
	default: // Close waits until the peer's device has acknowledged everything
		return e.err != nil || e.life.Left() || e.posted+e.controls+e.lasts == 0
	}
}

// A want is what a writer waits for in addition to a place in the send queue.
type want uint8

const (
	wantRoom   want = iota // space in the send buffer and in the peer's receive buffer
	wantTarget             // space in the peer's receive buffer
	wantMemory             // space in the send buffer
	wantCredit             // credit for one message
)

func (e *endpoint) has(w want) bool {
	switch w {
	case wantTarget:
		return e.tx.Room() > 0
	case wantMemory:
		return e.out.Room(1) > 0
	case wantCredit:
		return e.tx.Credit()
	}
	return e.tx.Room() > 0 && e.out.Room(1) > 0
}

// ended returns why a side must stop waiting, or nil if it may continue.
func (e *endpoint) ended(s *side) error {
	switch {
	case e.closed && s != &e.x:
		return errClosed
	case s.deadline.passed.Load():
		return errLate
	}
	return nil
}

// await waits until the side is ready. The caller holds mu before and after.
func (c *Conn) await(s *side) error {
	for {
		if err := c.ended(s); err != nil || c.ready(s) {
			return err
		}
		if c.leader == nil {
			c.leader = s
			c.lead(s)
			c.leader = nil
			c.wakeWaiting()
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

// wakeWaiting wakes the waiting sides, so that one of them becomes the leader.
func (e *endpoint) wakeWaiting() {
	for _, s := range [...]*side{&e.r, &e.w, &e.x} {
		if s.waiting {
			s.signal()
		}
	}
}

// lead polls the completion queue and then sleeps on it until there were
// completions.
func (c *Conn) lead(s *side) {
	if c.poll(s) {
		return
	}
	if c.stale {
		_, _ = c.events.Next(past) // removes the event, if there is one
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

// poll polls for the device's spin time. It does not if another goroutine polls the
// same device, because that one receives for all connections.
func (c *Conn) poll(s *side) bool {
	c.progress()
	if c.ended(s) != nil || c.ready(s) {
		return true
	}
	if c.spin <= 0 || !c.busy.turn.Take() {
		return false
	}
	defer c.busy.turn.Give()
	for spin := (waiting.Spin{For: c.spin, Every: 1}); spin.More(); {
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

// A spinner is what the connections of a device share: the turn to poll it.
type spinner struct {
	turn  waiting.Turn
	dev   *verbs.Device
	conns int
	grown atomic.Int64 // bytes that the buffers of the connections have grown by
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
