package cma

import (
	"context"
	"fmt"

	"softrdma/internal/cmid"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
)

// An EventChannel queues the events of its ids. Any number of goroutines may wait
// on it.
type EventChannel struct {
	m      *Manager
	tell   func()        // if not nil, called instead of using signal
	signal chan struct{} // holds one token while list may be non-empty
	done   chan struct{} // closed by Close

	// guarded by the Manager's lock
	list   []Event
	ids    map[*ID]struct{}
	closed bool
}

// NewChannel returns an event channel.
func (m *Manager) NewChannel() *EventChannel { return m.NewChannelFor(nil) }

// NewChannelFor returns an event channel without waiters: it calls tell when there
// may be events. tell must not block and must not call the Manager.
func (m *Manager) NewChannelFor(tell func()) *EventChannel {
	m.lock()
	defer m.unlock()
	c := &EventChannel{
		m: m, tell: tell, signal: make(chan struct{}, 1), done: make(chan struct{}), ids: make(map[*ID]struct{}),
	}
	m.channels[c] = struct{}{}
	return c
}

// NewID returns an id that reports to the channel. Type is the service type of its
// queue pair; 0 means the default of the port space.
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
	id := &ID{endpoint: endpoint{m: c.m, space: space, kind: t}, seq: c.m.seq, ch: c}
	id.datagram.at = &id.endpoint
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
			// Prefer an event that arrived at the same time.
			if e, ok := c.Poll(); ok {
				return e, nil
			}
			return Event{}, ctx.Err()
		}
	}
}

// Poll returns the next event, if there is one.
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

// owner returns the id whose migration or end includes this event. For a connect
// request that is the listener, because the program does not have the new id yet.
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

// maxWritten is how many events of an id may be queued when another is written.
const maxWritten = 64

// WriteEvent queues an event with a status and an argument, which mean nothing here. It
// fails with reason.QueueFull while many events of the id are queued.
func (id *ID) WriteEvent(t cmid.EventType, status int, argument uint64) error {
	id.m.lock()
	defer id.m.unlock()
	switch {
	case id.state == cmid.Destroying:
		return fmt.Errorf("write event: %w", cmid.ErrDestroyed)
	case id.queued >= maxWritten:
		return reason.Detail{Reason: reason.QueueFull, Expected: maxWritten, Found: uint64(id.queued)}.Err()
	}
	id.ch.push(Event{Type: t, ID: id, Status: status, Argument: argument})
	return nil
}

// drop removes the events of an id for which wanted returns true, and returns them.
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

// Migrate makes the id report to another channel of the same Manager and moves its
// queued events. The new ids of queued connect requests move too.
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

// Close destroys the channel's ids and closes the channel. Waiting calls of Next
// return ErrClosed.
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
