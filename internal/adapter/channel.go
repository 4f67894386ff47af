package adapter

import (
	"context"
	"fmt"
	"sync/atomic"

	"softrdma/internal/adapter/drive"
	"softrdma/internal/object"
)

// A Channel is a completion channel: it queues the events of many CQs.
type Channel struct {
	dev    *Device
	uses   object.Uses // completion queues
	events object.Events[*CQ]
	gone   chan struct{} // closed with Destroy

	lanes  atomic.Uint64 // laneSet of the queues
	notify func(*CQ)     // takes the events instead
	wait   drive.BlockingWait
}

// CreateChannel makes a completion channel.
func (d *Device) CreateChannel() (*Channel, error) {
	if err := d.add(&d.counts.Channel, 1); err != nil {
		return nil, err
	}
	h := &Channel{dev: d, gone: make(chan struct{})}
	h.events.Init()
	h.wait.Init()
	return h, nil
}

// CreateNotifyChannel makes a completion channel whose events go to notify,
// which is called with the lane held: it must not block nor call the device.
func (d *Device) CreateNotifyChannel(notify func(*CQ)) (*Channel, error) {
	h, err := d.CreateChannel()
	if err == nil {
		h.notify = notify
	}
	return h, err
}

// Destroy destroys the channel. It is refused while completion queues use it.
func (h *Channel) Destroy() error {
	if did, err := h.uses.End("completion channel"); !did {
		return err
	}
	close(h.gone)
	h.wait.Wake()
	h.wait.Forget()
	return h.dev.add(&h.dev.counts.Channel, -1)
}

func (h *Channel) push(c *CQ) {
	if h.notify != nil {
		h.notify(c)
		return
	}
	h.events.Push(c)
	h.wait.Wake()
}

// Pending implements drive.Events.
func (h *Channel) Pending() bool { return h.events.Len() > 0 || h.ended() }

func (h *Channel) drop(c *CQ) { h.events.Drop(func(x *CQ) bool { return x == c }) }

func (h *Channel) take() *CQ {
	c, _ := h.events.Take()
	if h.events.Len() > 0 {
		h.wait.Wake()
	}
	return c
}

// Next waits for the next event and returns its completion queue.
func (h *Channel) Next(ctx context.Context) (*CQ, error) {
	for {
		if c := h.take(); c != nil {
			return c, nil
		}
		if ctx.Err() == nil && !h.ended() && h.block(ctx) {
			continue
		}
		if c, err := h.sleep(ctx); c != nil || err != nil {
			return c, err
		}
	}
}

// sources returns the lanes that events come from.
func (h *Channel) sources() laneSet {
	if s := laneSet(h.lanes.Load()); s != 0 {
		return s
	}
	return h.dev.lanes[0].bit()
}

// block lets a waiter for the channel's events sleep in the link of one of the lanes
// that they come from, if no other waiter sleeps there; the others' workers drive
// meanwhile. It returns false where the waiter has to sleep elsewhere.
func (h *Channel) block(ctx context.Context) bool {
	if !h.wait.TryLock() {
		return false
	}
	defer h.wait.Unlock()
	if h.ended() {
		return true // and its contexts are no longer watched
	}
	sources := h.sources()
	for s := sources; s != 0; {
		l := s.next(h.dev)
		for others := sources &^ l.bit(); others != 0; {
			others.next(h.dev).Attend()
		}
		if l.Block(ctx, &h.wait, h) {
			return true
		}
	}
	return false
}

// sleep waits for the signal while other waiters sleep in the links.
func (h *Channel) sleep(ctx context.Context) (*CQ, error) {
	sources := h.sources()
	for s := sources; s != 0; {
		l := s.next(h.dev)
		l.EnterWait()
		defer l.LeaveWait()
	}
	select {
	case <-h.events.Signal():
		return h.take(), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-h.gone:
		return nil, fmt.Errorf("completion channel: %w", ErrDestroyed)
	case <-h.dev.done:
		h.wait.Forget()
		return nil, ErrClosed
	}
}

// ended reports whether the channel or its device is gone.
func (h *Channel) ended() bool {
	select {
	case <-h.gone:
		return true
	case <-h.dev.done:
		return true
	default:
		return false
	}
}
