package rdmacm

import (
	"context"
	"sync"

	"softrdma/verbs"
)

// events hands the events of all endpoints, listeners, requests and connections
// of the process out.
var events hub

// A hub runs one event channel with one goroutine while it has users.
type hub struct {
	mu  sync.Mutex
	run *hubRun // nil without users
}

// A hubRun is a channel and its goroutine, from the first user to the last.
type hubRun struct {
	ch    *EventChannel
	stop  context.CancelFunc
	ended chan struct{}
	users int // guarded by hub.mu; never grows from 0
}

// newID makes an id whose events go to deliver, on the hub's goroutine: it must
// not block, and not give the last user up. The id ends with release.
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

// adopt is newID for the id of a connect request to the id listen. It is false
// where the hub is about to end: the id is the caller's to destroy then.
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

// release destroys an id of the hub; like ID.Destroy it can be called again.
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

// hold counts one more user, and starts the goroutine for the first.
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

// drop ends hold. With the last user the goroutine has ended when it returns.
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
		_ = r.ch.Close() // without ids it is not busy
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
