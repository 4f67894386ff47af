package carrier

import (
	"context"
	"sync/atomic"

	"softrdma/verbs"
)

// A Rail is a device of an engine, and the completion queue that the engine has there.
type Rail struct {
	Dev    *verbs.Device
	events *verbs.CompChannel
	cq     *verbs.CQ
	room   int           // completions that connections may have
	armed  chan struct{} // for pump
	Gone   atomic.Bool   // the device has closed
}

// On returns the engine's rail on a device, and makes it if there is none. Afterwards the caller wakes the
// goroutine that sleeps on the first rail.
func (e *Engine) On(dev *verbs.Device) (*Rail, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	live := e.rails[:0:0] // Next may read the old list
	for _, r := range e.rails {
		if r.Gone.Load() {
			continue
		}
		if r.Dev == dev {
			return r, nil
		}
		live = append(live, r)
	}
	r := &Rail{Dev: dev, armed: make(chan struct{}, 1)}
	var err error
	if r.events, err = dev.CreateCompChannel(); err != nil {
		return nil, err
	}
	if r.cq, err = dev.CreateCQ(verbs.CQConfig{Channel: r.events}); err != nil {
		_ = r.events.Destroy() // nothing uses it
		return nil, err
	}
	e.rails, e.dead = append(live, r), nil
	if e.first == nil {
		if e.first = r; e.pumped.Load() {
			e.pump(r)
		}
		return r, nil
	}
	if !e.pumped.Swap(true) && !e.first.Gone.Load() {
		e.pump(e.first)
	}
	e.pump(r)
	return r, nil
}

// Alive reports whether the engine has a rail that works.
func (e *Engine) Alive() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.dead == nil
}

// lose ends the connections of a rail whose device has closed. An engine without rails is dead. The caller
// holds the lock.
func (e *Engine) lose(r *Rail, err error) {
	if r.Gone.Swap(true) {
		return
	}
	left := false
	for _, r := range e.rails {
		left = left || !r.Gone.Load()
	}
	if !left {
		e.dead = err
	}
	for _, c := range e.conns {
		if c != nil && c.Rail == r {
			c.lose(err)
		}
	}
}

// pump tells the host of the events of a rail. It waits for an event only after Arm, because a goroutine
// that waits makes the device slower for those who poll.
func (e *Engine) pump(r *Rail) {
	e.pumps.Go(func() {
		for {
			select {
			case <-r.armed:
			case <-e.context.Done():
				return
			}
			_, err := r.events.Next(e.context)
			if e.context.Err() != nil {
				return
			}
			e.Lock()
			if err != nil {
				e.lose(r, err)
				e.Flush()
			}
			e.host.Event()
			e.host.Unlock()
			if err != nil {
				return
			}
		}
	})
}

// Arm asks for an event.
func (e *Engine) Arm() {
	pumped := e.pumped.Load()
	for _, r := range e.rails {
		if r.Gone.Load() {
			continue
		}
		r.cq.Arm(false)
		if pumped {
			token(r.armed)
		}
	}
}

// Next waits for the event.
func (e *Engine) Next(ctx context.Context) error {
	if !e.pumped.Load() {
		_, err := e.first.events.Next(ctx)
		return err
	}
	if ctx.Err() != nil { // only an event that is there
		select {
		case <-e.event:
		default:
		}
		return ctx.Err()
	}
	select {
	case <-e.event:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
