package msg

// A call is a function of the program to call without the worker's lock.
type call struct {
	then func(Info, error) // of a request
	info Info
	err  error

	handle Handler // of an active message
	active *Active

	unhandled func(*Endpoint, uint16) // for an active message without a handler
	failed    func(*Endpoint, error)  // for a connection
	from      *Endpoint
	id        uint16
}

func (c *call) run() {
	switch {
	case c.then != nil:
		c.then(c.info, c.err)
	case c.handle != nil:
		c.handle(c.active)
	case c.failed != nil:
		c.failed(c.from, c.err)
	default:
		c.unhandled(c.from, c.id)
	}
}

// unlock releases the worker's lock after it has called what waits for that. One goroutine at a
// time makes calls, so that handlers see messages in order. Others leave their calls to it.
func (w *Worker) unlock() {
	for len(w.calls) > 0 && !w.calling {
		calls := w.calls
		w.calls, w.called = w.called, nil
		w.calling = true
		skip := w.closed
		w.e.Unlock()
		for i := range calls {
			if c := &calls[i]; c.then != nil || !skip {
				c.run()
			}
		}
		w.e.Lock()
		w.calling = false
		for i := range calls {
			if a := calls[i].active; a != nil {
				a.release()
			}
		}
		w.e.Flush()
		clear(calls)
		w.called = calls[:0]
		if w.pollers > 0 {
			break // they make the next calls
		}
	}
	w.e.Unlock()
}
