package rdmacm

import (
	"context"
	"sync"

	"softrdma/verbs"
)

// events delivers the events of all endpoints, listeners, requests and connections
// of the process.
var events hub

// A hub runs one event channel with one goroutine while it has users.
type hub struct {
	mu  sync.Mutex
	run *hubRun // nil if there are no users
}

// A hubRun is a channel and its goroutine. It exists from the first user to the
// last.
type hubRun struct {
	ch    *EventChannel
	stop  context.CancelFunc
	ended chan struct{}
	users int // guarded by hub.mu; never grows again from 0
}

// newID returns an id whose events go to deliver, on the hub's goroutine. deliver
// must not block and must not release the last user. The caller ends the id with
// release.
func (h *hub) newID(ps PortSpace, t verbs.QPType, deliver func(*Event)) (*ID, error) {
	r := h.hold()
	id, err := r.ch.newID(ps, t)
	if err != nil {
		h.drop(r)
		return nil, err
	}
	id.run, id.deliver = r, deliver
	return id, nil
}

// adopt is newID for the new id of a connect request to the id listen. If it
// returns false the hub is about to end, and the caller must destroy the id.
func (h *hub) adopt(id, listen *ID, deliver func(*Event)) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if listen.run.users == 0 {
		return false
	}
	listen.run.users++
	id.run, id.deliver = listen.run, deliver
	return true
}

// release destroys an id of the hub. Like ID.Destroy it may be called again.
func (h *hub) release(id *ID) error {
	err := id.Destroy()
	h.mu.Lock()
	r := id.run
	id.run = nil
	h.mu.Unlock()
	if r != nil {
		h.drop(r)
	}
	return err
}

// hold adds a user and starts the goroutine for the first one.
func (h *hub) hold() *hubRun {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.run == nil {
		ctx, stop := context.WithCancel(context.Background())
		h.run = &hubRun{ch: NewEventChannel(), stop: stop, ended: make(chan struct{})}
		go h.run.serve(ctx)
	}
	h.run.users++
	return h.run
}

// drop removes a user. For the last user it waits until the goroutine has ended.
func (h *hub) drop(r *hubRun) {
	h.mu.Lock()
	r.users--
	last := r.users == 0
	if last {
		h.run = nil
	}
	h.mu.Unlock()
	if last {
		r.stop()
		<-r.ended
		_ = r.ch.Close() // cannot fail without ids
	}
}

func (r *hubRun) serve(ctx context.Context) {
	defer close(r.ended)
	for {
		e, err := r.ch.Next(ctx)
		if err != nil {
			return
		}
		to := e.ID
		if e.Type == EventConnectRequest {
			to = e.Listen
		}
		to.deliver(&e)
	}
}
