package rdmacm

import (
	"context"
	"fmt"
	"sync"

	"softrdma/internal/reason"
	"softrdma/verbs"
)

// An end is the common part of an Endpoint, a Request and a Conn: an id of the hub
// and its queued events.
type end struct {
	id   *ID
	done chan struct{} // closed by finish

	mu          sync.Mutex
	queue       []Event
	arrived     chan struct{} // holds a token if the queue has grown since wait checked it
	gone        bool          // the peer no longer waited before the connection was established
	err         error         // the reason that was passed to finish
	left        bool          // this side has ended the connection
	established bool          // EventEstablished has arrived
	watch       func()        // called after each event and after finish
}

func newEnd() *end {
	return &end{done: make(chan struct{}), arrived: make(chan struct{}, 1)}
}

// deliver handles an event on the hub's goroutine.
func (e *end) deliver(v *Event) {
	switch v.Type {
	case EventTimewaitExit, EventAddrChange:
		return
	case EventDisconnected:
		e.disconnected(v)
		return
	case EventDeviceRemoval:
		e.finish(fmt.Errorf("device of %v: %w", e.id.LocalAddr(), verbs.ErrClosed), e.id.toErr)
		return
	}
	switch {
	case e.isEstablished(v) && v.Err != nil: // the peer withdrew its acceptance
		e.finish(v.Err, e.id.toErr)
		return
	case v.Type == EventRejected:
		e.id.toErr()
	}
	e.mu.Lock()
	e.queue = append(e.queue, *v)
	if v.Type == EventRejected || v.Type == EventUnreachable || v.Type == EventConnectError {
		e.gone = true
	}
	select {
	case e.arrived <- struct{}{}:
	default:
	}
	watch := e.watch
	e.mu.Unlock()
	if watch != nil {
		watch()
	}
}

// disconnected answers the peer's request to end the connection, or ends it without the peer.
func (e *end) disconnected(v *Event) {
	e.mu.Lock()
	left := e.left
	e.mu.Unlock()
	if left {
		_ = e.id.c.Disconnect() // both sides sent a request, and the peer's needs an answer too
		return
	}
	why := disconnected(e.id.RemoteAddr(), v.said)
	if v.Err != nil {
		why = unanswered(v.Err)
	}
	e.finish(why, func() {
		_ = e.id.Disconnect() // fails if the peer no longer waits
	})
}

// finish ends the connection, or the attempt to make one, with a reason. It sets
// the reason first, because stop moves the queue pair to ERR and the flushed
// completions make other goroutines ask for the reason. At the end it wakes all
// waiters.
func (e *end) finish(why error, stop func()) {
	e.mu.Lock()
	first := e.err == nil
	if first {
		e.err = why
	}
	watch := e.watch
	e.mu.Unlock()
	if !first {
		return
	}
	stop()
	close(e.done)
	if watch != nil {
		watch()
	}
}

// isEstablished reports whether the connection is established, counting the event v.
func (e *end) isEstablished(v *Event) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.established = e.established || v.Type == EventEstablished
	return e.established
}

// take removes and returns the oldest event.
func (e *end) take() (Event, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.queue) == 0 {
		return Event{}, false
	}
	v := e.queue[0]
	e.queue = e.queue[1:]
	return v, true
}

// wait waits for an event and returns the error of a failure event. Only one
// goroutine may wait.
func (e *end) wait(ctx context.Context, what string) (Event, error) {
	for {
		if v, ok := e.take(); ok {
			return v, v.Err
		}
		select {
		case <-e.arrived:
		case <-e.done:
			if v, ok := e.take(); ok {
				return v, v.Err
			}
			return Event{}, e.why()
		case <-ctx.Done():
			return Event{}, fmt.Errorf("expected %s %v, found none in time: %w", what, e.id.RemoteAddr(), waitEnded(ctx))
		}
	}
}

// peerGone reports whether the peer no longer waits for this side.
func (e *end) peerGone() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.gone || e.err != nil
}

// why returns the reason that was passed to finish.
func (e *end) why() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

// leave ends the connection from this side.
func (e *end) leave() error {
	e.mu.Lock()
	first := e.err == nil
	e.left = e.left || first
	e.mu.Unlock()
	if !first {
		return nil
	}
	var err error
	e.finish(disconnected("this side", reason.Detail{}), func() { err = e.id.Disconnect() })
	return err
}
