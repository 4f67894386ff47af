package rdmacm

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"softrdma/internal/cmid"
	"softrdma/internal/provider"
	"softrdma/internal/qp"
	"softrdma/verbs"
)

// An EventChannel queues the events of ids.
type EventChannel struct {
	local  *source       // of the process's own devices
	signal chan struct{} // holds a token while there may be events
	done   chan struct{} // closed by Close

	mu     sync.Mutex
	ids    int
	others []*source // sources that have ids of the channel
	closed bool
}

// A source is the part of an event channel that a connection manager fills. All sources but
// the local one end with their last id.
type source struct {
	origin
	c   provider.EventChannel
	ids int // guarded by the channel's mutex
}

// NewEventChannel makes an event channel (rdma_create_event_channel).
func NewEventChannel() *EventChannel {
	ch := &EventChannel{signal: make(chan struct{}, 1), done: make(chan struct{})}
	o := processOrigin()
	c, _ := o.manager.NewEventChannel(ch.wake) // a manager of this process never fails
	ch.local = &source{origin: o, c: c}
	return ch
}

// wake wakes a waiter: there may be events.
func (ch *EventChannel) wake() {
	select {
	case ch.signal <- struct{}{}:
	default:
	}
}

// NewID makes an id (rdma_create_id) whose events the channel queues.
func (ch *EventChannel) NewID(ps PortSpace) (*ID, error) { return ch.newID(ps, 0) }

// NewIDForType makes an id whose queue pair has the service type t. In PortSpaceIB
// it can be RC, UC or UD.
func (ch *EventChannel) NewIDForType(ps PortSpace, t verbs.QPType) (*ID, error) {
	return ch.newID(ps, t)
}

func (ch *EventChannel) newID(ps PortSpace, t verbs.QPType) (*ID, error) {
	s := ch.local
	if err := ch.hold(s); err != nil {
		return nil, fmt.Errorf("create id: %w", err)
	}
	id := &ID{ch: ch, src: s}
	var err error
	if id.c, err = s.c.NewID(cmid.PortSpace(ps), qp.Type(t), id); err != nil {
		ch.drop(s)
		return nil, fmt.Errorf("create id: %w", err)
	}
	return id, nil
}

// hold adds an id to a source that is the local one or has ids.
func (ch *EventChannel) hold(s *source) error {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.closed || s != ch.local && s.ids == 0 {
		return fmt.Errorf("event channel: %w", ErrClosed)
	}
	ch.ids++
	s.ids++
	return nil
}

// holdFor is hold for the source of an origin, which it makes if the channel has none.
func (ch *EventChannel) holdFor(o origin) (*source, error) {
	if o == ch.local.origin {
		return ch.local, ch.hold(ch.local)
	}
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.closed {
		return nil, fmt.Errorf("event channel: %w", ErrClosed)
	}
	i := slices.IndexFunc(ch.others, func(s *source) bool { return s.origin == o })
	if i < 0 {
		c, err := o.manager.NewEventChannel(ch.wake)
		if err != nil {
			return nil, err
		}
		i = len(ch.others)
		ch.others = append(ch.others, &source{origin: o, c: c})
	}
	s := ch.others[i]
	ch.ids++
	s.ids++
	return s, nil
}

// drop undoes hold.
func (ch *EventChannel) drop(s *source) {
	ch.mu.Lock()
	ch.ids--
	s.ids--
	last := s.ids == 0 && s != ch.local
	if last {
		ch.others = slices.DeleteFunc(ch.others, func(x *source) bool { return x == s })
	}
	ch.mu.Unlock()
	if last {
		_ = s.c.Close() // never fails
	}
}

// Next waits for the next event (rdma_get_cm_event) and moves the queue pair of its
// id as librdmacm does: to RTS when the reply arrived, to ERR when the peer
// rejected. When the id joined a group it attaches the queue pair to the group.
// Events need no acknowledgement. The error is ErrClosed or the context's.
//
// The program owns the new id of EventConnectRequest: it accepts or rejects, and
// destroys it.
func (ch *EventChannel) Next(ctx context.Context) (Event, error) {
	for {
		s, c, err := ch.take(ctx)
		if err != nil {
			return Event{}, err
		}
		ch.wake() // there may be more events for other waiters
		if e, ok := ch.event(s, &c); ok {
			return e, nil
		}
	}
}

// take waits for the next event of any source.
func (ch *EventChannel) take(ctx context.Context) (*source, provider.ConnEvent, error) {
	for {
		select {
		case <-ch.done:
			return nil, provider.ConnEvent{}, fmt.Errorf("event channel: %w", ErrClosed)
		default:
		}
		if s, c, ok := ch.poll(); ok {
			return s, c, nil
		}
		select {
		case <-ch.signal:
		case <-ch.done:
		case <-ctx.Done():
			// Deliver an event that arrived at the same time.
			if s, c, ok := ch.poll(); ok {
				return s, c, nil
			}
			return nil, provider.ConnEvent{}, waitEnded(ctx)
		}
	}
}

// poll returns the next event of any source and reports whether there is one.
func (ch *EventChannel) poll() (*source, provider.ConnEvent, bool) {
	if c, ok := ch.local.c.Poll(); ok {
		return ch.local, c, true
	}
	ch.mu.Lock()
	others := slices.Clone(ch.others)
	ch.mu.Unlock()
	for _, s := range others {
		if c, ok := s.c.Poll(); ok {
			return s, c, true
		}
	}
	return nil, provider.ConnEvent{}, false
}

// Close closes the channel (rdma_destroy_event_channel). It fails with ErrBusy
// while ids use it. Queued events are lost; the peers of queued connect requests
// are rejected.
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
	close(ch.done)
	return ch.local.c.Close()
}
