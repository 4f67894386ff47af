package ucx

import (
	"fmt"

	"softrdma/msg"
)

// An event is something that Progress reports to the program: one of its fields is set.
type event struct {
	request *request // has ended
	active  *active  // has arrived
	lost    *msg.Endpoint
	err     error // of lost
	run     func()
}

func (x *event) handle(w *UcpWorker) {
	switch {
	case x.request != nil:
		x.request.call()
	case x.active != nil:
		x.active.call(w)
	case x.lost != nil:
		w.lost(x.lost, x.err)
	default:
		x.run()
	}
}

// post queues an event for Progress. It wakes the program, except in Progress, which handles
// the event.
func (w *UcpWorker) post(x event) {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return
	}
	w.queue = append(w.queue, x)
	outside := w.progressing == 0
	w.mu.Unlock()
	if outside {
		w.worker.Signal()
	}
}

// Progress makes progress and calls callbacks. It returns the number of events. It does not
// block.
func (w *UcpWorker) Progress() uint {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return 0
	}
	w.progressing++
	w.mu.Unlock()
	n := w.worker.Progress()
	w.mu.Lock()
	w.progressing--
	if w.calling { // by a goroutine that handles all events, perhaps this one
		w.mu.Unlock()
		return uint(n)
	}
	w.calling = true
	w.progressing++
	for k := len(w.queue); k > 0 && len(w.queue) > 0; k-- { // not those that these callbacks add
		x := w.queue[0]
		w.queue[0] = event{}
		if w.queue = w.queue[1:]; len(w.queue) == 0 {
			w.queue = nil
		}
		w.mu.Unlock()
		w.handle(x)
		n++
		w.mu.Lock()
	}
	w.calling = false
	w.progressing--
	more := len(w.queue) > 0
	w.mu.Unlock()
	if more {
		w.worker.Signal()
	}
	return uint(n)
}

// handle handles an event. If the program's function does not return, the next Progress
// continues.
func (w *UcpWorker) handle(x event) {
	returned := false
	defer func() {
		if !returned {
			w.mu.Lock()
			w.calling = false
			w.progressing--
			w.mu.Unlock()
		}
	}()
	x.handle(w)
	returned = true
}

// Arm prepares the worker for sleep: the next event makes the descriptor of GetEfd readable. If it
// returns UCS_ERR_BUSY something has happened, or Signal was called, and the program calls Progress
// and Arm again.
func (w *UcpWorker) Arm() UcsStatus {
	switch {
	case w.ctx.params.features&featureWakeup == 0:
		return UCS_ERR_INVALID_PARAM
	case w.done.Err() != nil:
		return UCS_ERR_CANCELED
	case w.busy() || !w.worker.Arm() || w.busy():
		return UCS_ERR_BUSY
	}
	return UCS_OK
}

// busy reports whether the program has something to do.
func (w *UcpWorker) busy() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	signaled := w.signaled
	w.signaled = false
	return signaled || len(w.queue) > 0
}

// Wait waits until something has happened since the last Wait, or Signal is called. The
// program must first call Progress until it returns 0. If the worker closes, Wait returns an
// error.
func (w *UcpWorker) Wait() error {
	w.mu.Lock()
	happened := w.happened
	w.happened = false
	w.mu.Unlock()
	if happened {
		return nil
	}
	switch s := w.Arm(); s {
	case UCS_OK:
	case UCS_ERR_BUSY:
		return nil
	default:
		return &UcxError{s, fmt.Errorf("the worker has closed, or the context was made without EnableWakeup")}
	}
	w.mu.Lock()
	w.waiters++
	w.mu.Unlock()
	var err error
	select {
	case <-w.worker.Wakeup():
	case <-w.done.Done():
		err = NewUcxError(UCS_ERR_CANCELED)
	}
	w.mu.Lock()
	w.waiters--
	others := w.waiters > 0 && err == nil
	w.mu.Unlock()
	if others {
		w.worker.Signal() // wakes one
	}
	return err
}

// GetEfd returns a descriptor for poll or epoll, which is readable when something has happened since
// Arm. The worker closes it.
func (w *UcpWorker) GetEfd() (int, error) {
	if err := w.ctx.need(featureWakeup, "EnableWakeup"); err != nil {
		return 0, err
	}
	if w.params.hasFD {
		return 0, &UcxError{UCS_ERR_UNSUPPORTED, fmt.Errorf("the worker has a descriptor of SetEventFD")}
	}
	fd, err := w.worker.Descriptor()
	if err != nil {
		return 0, failure(err)
	}
	return int(fd), nil
}

// Signal makes the descriptor of GetEfd readable and ends a Wait, or the next one.
func (w *UcpWorker) Signal() error {
	if err := w.ctx.need(featureWakeup, "EnableWakeup"); err != nil {
		return err
	}
	w.mu.Lock()
	w.signaled = true
	w.mu.Unlock()
	w.worker.Signal()
	return nil
}
