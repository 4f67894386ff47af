package cma

import (
	"context"
	"fmt"

	"softrdma/internal/cmid"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
)

// An EventChannel queues the events of its ids. Any number of goroutines may
// wait on one.
type EventChannel struct {
	m      *Manager
	tell   func()        // called in place of signal, where it is not nil
	signal chan struct{} // holds one token while list may be non-empty
	done   chan struct{} // closed by Close

	// The Manager's:
	list   []Event
	ids    map[*ID]struct{}
	closed bool
}

// NewChannel makes an event channel.
func (m *Manager) NewChannel() *EventChannel { return m.NewChannelFor(nil) }

// NewChannelFor makes an event channel that nobody waits on: tell is called when
// there may be events to take. It must not block, nor call the Manager.
func (m *Manager) NewChannelFor(tell func()) *EventChannel {
	m.lock()
	defer m.unlock()
	c := &EventChannel{
		m: m, tell: tell, signal: make(chan struct{}, 1), done: make(chan struct{}), ids: make(map[*ID]struct{}),
	}
	m.channels[c] = struct{}{}
	return c
}

// NewID makes an id that reports to the channel. Type is the service type of
// its queue pair; 0 takes what the port space stands for.
func (c *EventChannel) NewID(space cmid.PortSpace, t qp.Type) (*ID, error) {
	if t == 0 {
		t = cmid.ServiceType(space)
	}
	if err := cmid.CheckType(space, t); err != nil {
		return nil, err
	}
	c.m.lock()
	defer c.m.unlock()
	if c.closed {
		return nil, cmid.ErrClosed
	}
	return c.newID(space, t), nil
}

func (c *EventChannel) newID(space cmid.PortSpace, t qp.Type) *ID {
	c.m.seq++
	id := &ID{m: c.m, seq: c.m.seq, ch: c, space: space, kind: t}
	c.ids[id] = struct{}{}
	c.m.ids++
	return id
}

// Next waits for the next event. The error is ErrClosed or the context's.
func (c *EventChannel) Next(ctx context.Context) (Event, error) {
	for {
		e, ok, err := c.take()
		if ok || err != nil {
			return e, err
		}
		select {
		case <-c.signal:
		case <-c.done:
		case <-ctx.Done():
			// An event that came at the same time is not kept waiting.
			if e, ok := c.Poll(); ok {
				return e, nil
			}
			return Event{}, ctx.Err()
		}
	}
}

// Poll is the next event, if there is one now.
func (c *EventChannel) Poll() (Event, bool) {
	e, ok, _ := c.take()
	return e, ok
}

func (c *EventChannel) take() (e Event, ok bool, err error) {
	c.m.lock()
	defer c.m.unlock()
	switch {
	case c.closed:
		return e, false, cmid.ErrClosed
	case len(c.list) == 0:
		return e, false, nil
	}
	e, c.list[0] = c.list[0], Event{}
	if c.list = c.list[1:]; len(c.list) > 0 {
		c.wake()
	} else {
		c.list = nil
	}
	e.owner().queued--
	return e, true, nil
}

func (c *EventChannel) wake() {
	if c.tell != nil {
		c.tell()
		return
	}
	select {
	case c.signal <- struct{}{}:
	default:
	}
}

// owner is the id whose events are taken along or dropped with it: of a connect
// request the listener, for nobody has the new id yet.
func (e *Event) owner() *ID {
	if e.Listener != nil {
		return e.Listener
	}
	return e.ID
}

// push queues an event.
func (c *EventChannel) push(e Event) {
	c.list = append(c.list, e)
	e.owner().queued++
	c.wake()
}

// drop removes those events of an id that are wanted and returns them.
func (c *EventChannel) drop(id *ID, wanted func(*Event) bool) (dropped []Event) {
	if id.queued == 0 {
		return nil
	}
	var kept []Event
	for _, e := range c.list {
		if e.owner() == id && wanted(&e) {
			dropped = append(dropped, e)
		} else {
			kept = append(kept, e)
		}
	}
	c.list = kept
	id.queued -= len(dropped)
	return dropped
}

func all(*Event) bool { return true }

// Migrate makes the id report to another channel of the same Manager, and
// takes along the events that nobody has taken yet. New ids in its connect
// requests move with them.
func (id *ID) Migrate(to *EventChannel) error {
	id.m.lock()
	defer id.m.unlock()
	if to.m != id.m {
		return reason.BadArgument(0, 0, "migrate: expected a channel of the same manager, found another's")
	}
	if to.closed {
		return cmid.ErrClosed
	}
	if id.state == cmid.Destroying {
		return fmt.Errorf("migrate: %w", cmid.ErrDestroyed)
	}
	from := id.ch
	if from == to {
		return nil
	}
	moved := from.drop(id, all)
	id.move(to)
	for _, e := range moved {
		if e.Listener != nil {
			e.ID.move(to)
		}
		to.push(e)
	}
	return nil
}

func (id *ID) move(to *EventChannel) {
	delete(id.ch.ids, id)
	id.ch = to
	to.ids[id] = struct{}{}
}

// Close destroys the channel's ids and ends the channel. Callers that wait in
// Next get ErrClosed.
func (c *EventChannel) Close() error {
	c.m.lock()
	defer c.m.unlock()
	if c.closed {
		return nil
	}
	for _, id := range c.m.sorted(c.ids) {
		id.destroy()
	}
	c.closed, c.list = true, nil
	delete(c.m.channels, c)
	close(c.done)
	return nil
}
