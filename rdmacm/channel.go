package rdmacm

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"softrdma/internal/cma"
	"softrdma/verbs"
)

// An EventChannel takes the events of ids.
type EventChannel struct {
	c *cma.EventChannel

	mu     sync.Mutex
	ids    int
	closed bool
}

// NewEventChannel makes an event channel (rdma_create_event_channel).
func NewEventChannel() *EventChannel { return &EventChannel{c: manager().NewChannel()} }

// NewID makes an id (rdma_create_id), whose events come on the channel.
func (ch *EventChannel) NewID(ps PortSpace) (*ID, error) { return ch.newID(ps, 0) }

// NewIDForType makes an id whose queue pair has the service type t, as
// PortSpaceIB leaves it open: RC, UC or UD.
func (ch *EventChannel) NewIDForType(ps PortSpace, t verbs.QPType) (*ID, error) {
	return ch.newID(ps, t)
}

func (ch *EventChannel) newID(ps PortSpace, t verbs.QPType) (*ID, error) {
	if err := ch.hold(); err != nil {
		return nil, fmt.Errorf("create id: %w", err)
	}
	c, err := ch.c.NewID(ps, t)
	if err != nil {
		ch.drop()
		return nil, fmt.Errorf("create id: %w", err)
	}
	id := &ID{c: c, ch: ch}
	c.Context = id
	return id, nil
}

// hold counts one more id of the channel.
func (ch *EventChannel) hold() error {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.closed {
		return fmt.Errorf("event channel: %w", ErrClosed)
	}
	ch.ids++
	return nil
}

// drop ends hold.
func (ch *EventChannel) drop() {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.ids--
}

// Next waits for the next event (rdma_get_cm_event), and moves the queue pair
// of its id as librdmacm does: when the reply came, to RTS; when the peer
// rejected, to ERR; when a group was joined, it attaches it. Events need no
// acknowledgement. The error is ErrClosed or the context's.
//
// An id that comes with EventConnectRequest is the program's, to be accepted or
// rejected, and destroyed.
func (ch *EventChannel) Next(ctx context.Context) (Event, error) {
	for {
		c, err := ch.c.Next(ctx)
		switch {
		case errors.Is(err, cma.ErrClosed):
			return Event{}, fmt.Errorf("event channel: %w", ErrClosed)
		case err != nil:
			return Event{}, err
		}
		if e, ok := ch.event(&c); ok {
			return e, nil
		}
	}
}

// Close gives the channel up (rdma_destroy_event_channel); ErrBusy while ids
// use it. Events that were not taken are lost, and with them the ids of
// connect requests, whose peers are rejected.
func (ch *EventChannel) Close() error {
	ch.mu.Lock()
	if ch.ids > 0 {
		defer ch.mu.Unlock()
		return fmt.Errorf("close event channel: %w: %d ids report to it", ErrBusy, ch.ids)
	}
	closed := ch.closed
	ch.closed = true
	ch.mu.Unlock()
	if closed {
		return nil
	}
	return ch.c.Close()
}
