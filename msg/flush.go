package msg

// Flush returns a request that ends when all accesses of the endpoint that began before it are
// complete in the peer's memory, in this program's buffers, and in the peer's view. If one of them
// fails, or the peer, the request ends with the error.
func (e *Endpoint) Flush() *Request {
	w := e.c.w
	w.mu.Lock()
	defer w.unlock()
	r := w.request()
	e.c.pipeline.add(w.access(r, accessFlush))
	w.flush()
	return r
}

// Flush is like Flush of an endpoint, for all endpoints of the worker that have not failed.
func (w *Worker) Flush() *Request {
	w.mu.Lock()
	defer w.unlock()
	r := w.request()
	r.parts++ // until all have begun
	for _, c := range w.conns {
		c.pipeline.add(w.access(r, accessFlush))
	}
	r.endPart(nil)
	w.flush()
	return r
}

// Fence orders the endpoint's accesses: those that begin later are carried out after those that
// began before. It does not wait.
func (e *Endpoint) Fence() {
	w := e.c.w
	w.mu.Lock()
	defer w.mu.Unlock()
	e.c.pipeline.fence = true
}

// Fence orders the accesses of each endpoint, as Fence of the endpoint does. Accesses of different
// endpoints are not ordered.
func (w *Worker) Fence() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		c.pipeline.fence = true
	}
}
