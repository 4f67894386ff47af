package msg

import (
	"slices"

	"softrdma/internal/message"
	"softrdma/msg/internal/access"
)

// A flush is a request to flush that waits for sends.
type flush struct {
	sends  message.Mark
	passed bool   // the frames of these sends are posted or in the backlog
	added  uint64 // work that had entered the backlog by then
	access *access.Access
}

// addFlush begins a flush, which is a part of o unless that is nil. The caller holds the lock and calls
// carrier.Engine.Flush.
func (c *connection) addFlush(o *access.Operation) {
	x := c.w.accesses.Access(o, access.Flush)
	if c.err != nil {
		x.End(c.err)
		return
	}
	c.flushes = append(c.flushes, flush{sends: c.peer.Mark(), access: x})
	c.Mark()
}

// passFlushes hands flushes whose sends are posted to the pipeline.
func (c *connection) passFlushes() {
	for len(c.flushes) > 0 {
		f := &c.flushes[0]
		if !f.passed && c.peer.Passed(f.sends) {
			f.passed, f.added = true, c.entered()
		}
		if !f.passed || c.left() < f.added {
			return
		}
		x := f.access
		c.flushes = slices.Delete(c.flushes, 0, 1)
		c.access(x)
	}
}

// Flush returns a request that ends when everything of the endpoint that began before it is complete:
// accesses in the peer's memory and in this program's buffers, and messages and streams in the peer's
// worker. Of announced messages that is the announcement; what the peer's limits hold back has to
// begin first. If something fails, or the peer, the request ends with the error.
func (e *Endpoint) Flush() *Request {
	w := e.c.w
	w.e.Lock()
	defer w.unlock()
	r := w.request()
	o := r.operation()
	e.c.addFlush(o)
	o.End(nil)
	w.e.Flush()
	return r
}

// Flush is like Flush of an endpoint, for all endpoints of the worker that have not failed.
func (w *Worker) Flush() *Request {
	w.e.Lock()
	defer w.unlock()
	r := w.request()
	o := r.operation()
	for _, c := range w.conns {
		c.addFlush(o)
	}
	o.End(nil)
	w.e.Flush()
	return r
}

// Fence orders the endpoint's accesses: those that begin later are executed after those that
// began before. It does not wait.
func (e *Endpoint) Fence() {
	w := e.c.w
	w.e.Lock()
	defer w.e.Unlock()
	e.c.fence()
}

// Fence orders the accesses of each endpoint, as Fence of the endpoint does. Accesses of different
// endpoints are not ordered.
func (w *Worker) Fence() {
	w.e.Lock()
	defer w.e.Unlock()
	for _, c := range w.conns {
		c.fence()
	}
}
