package rdmacm

import (
	"context"
	"fmt"
	"sync"

	"softrdma/verbs"
)

// An end is what an Endpoint, a Request and a Conn are about: an id of the hub
// and the events that have come for it.
type end struct {
	id   *ID
	done chan struct{} // closed by finish

	mu       sync.Mutex
	queue    []Event
	came     chan struct{} // holds one when the queue has grown since wait looked
	gone     bool          // the peer has turned away before the connection stood
	err      error         // of finish
	left     bool          // by this side
	standing bool          // it was established, whether or not that was taken yet
	watch    func()        // called when an event has come or finish was
}

func newEnd() *end {
	return &end{done: make(chan struct{}), came: make(chan struct{}, 1)}
}

// deliver takes an event on the hub's goroutine.
func (e *end) deliver(v *Event) {
	switch v.Type {
	case EventTimewaitExit, EventAddrChange:
		return
	case EventDisconnected:
		e.disconnected()
		return
	case EventDeviceRemoval:
		e.finish(fmt.Errorf("device of %v: %w", e.id.LocalAddr(), verbs.ErrClosed), e.id.toErr)
		return
	}
	switch {
	case e.stands(v) && v.Err != nil: // the peer took back what it had accepted
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
	case e.came <- struct{}{}:
	default:
	}
	watch := e.watch
	e.mu.Unlock()
	if watch != nil {
		watch()
	}
}

// disconnected answers the peer that has ended the connection.
func (e *end) disconnected() {
	e.mu.Lock()
	left := e.left
	e.mu.Unlock()
	if left {
		_ = e.id.c.Disconnect() // a message that crossed this side's wants its answer as well
		return
	}
	e.finish(disconnected(e.id.RemoteAddr()), func() {
		_ = e.id.Disconnect() // refused where the peer waits no longer
	})
}

// finish ends the connection, or what was to become one, for a reason: first
// there is the reason, then stop moves the queue pair to ERR, whose flushed
// completions make others ask for it, and then everybody is told.
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

// stands reports whether the connection was established, at the latest by v.
func (e *end) stands(v *Event) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.standing = e.standing || v.Type == EventEstablished
	return e.standing
}

// take is the oldest event.
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

// wait waits for an event, and makes the failure of one an error. It is for
// one caller at a time.
func (e *end) wait(ctx context.Context, what string) (Event, error) {
	for {
		if v, ok := e.take(); ok {
			return v, v.Err
		}
		select {
		case <-e.came:
		case <-e.done:
			if v, ok := e.take(); ok {
				return v, v.Err
			}
			return Event{}, e.why()
		case <-ctx.Done():
			return Event{}, fmt.Errorf("expected %s %v, found none in time: %w", what, e.id.RemoteAddr(), ctx.Err())
		}
	}
}

// turnedAway reports whether there is no peer any more that waits.
func (e *end) turnedAway() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.gone || e.err != nil
}

// why is what finish was given.
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
	e.finish(disconnected("this side"), func() { err = e.id.Disconnect() })
	return err
}
