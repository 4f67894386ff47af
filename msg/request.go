package msg

import (
	"context"
	"errors"
	"sync/atomic"

	"softrdma/internal/tagged"
	"softrdma/verbs"
)

// All is the mask of a receive that takes exactly one tag. The mask 0 takes every message.
const All uint64 = 1<<64 - 1

// The errors of requests.
var (
	// ErrTruncated ends a receive whose buffer is shorter than the message. Info has the
	// message's length. The rest of the message is lost.
	ErrTruncated = tagged.ErrTruncated
	// ErrCanceled ends a receive that Request.Cancel canceled.
	ErrCanceled = tagged.ErrCanceled
	// ErrPeer is matched by the errors of requests whose peer has failed or closed. The errors
	// also match the cause.
	ErrPeer = errors.New("peer is gone")
	// ErrLimit is matched by the error of a connection whose peer sent more unexpected messages
	// than Config allows.
	ErrLimit = tagged.ErrLimit
	// ErrTooLong is matched by the error of a send of more than verbs.MaxMessage bytes.
	ErrTooLong = errors.New("message too long")
	// ErrReceived ends a second ReceiveMessage of one Message.
	ErrReceived = errors.New("message was received before")
	// ErrClosed is the error of operations on a closed worker or endpoint.
	ErrClosed = errors.New("closed")
)

// Info describes a message.
type Info struct {
	Tag    uint64
	Length int // in bytes
}

// A Request is an operation that was started: a send, a receive, or one on remote memory. Until it has ended the
// program does not change a send's bytes and does not use a receive's buffer.
type Request struct {
	worker *Worker
	ended  atomic.Bool // set after info and err
	info   Info
	err    error

	done chan struct{} // made by Done; guarded by the worker's lock
	then func(Info, error)

	send      tagged.Send
	receive   tagged.Receive
	receiving bool
	region    *verbs.MR // over the bytes that a READ moves
	parts     int       // accesses that have not ended
}

// Done returns a channel that is closed when the request has ended. With ProgressCaller some
// goroutine must make progress meanwhile.
func (r *Request) Done() <-chan struct{} {
	w := r.worker
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.done == nil {
		r.done = make(chan struct{})
		if r.ended.Load() {
			close(r.done)
		}
	}
	return r.done
}

// Poll makes the worker progress and reports whether the request has ended. If so, it returns
// the message's description and the request's error. It does not block.
func (r *Request) Poll() (Info, bool, error) {
	if !r.ended.Load() {
		r.worker.Progress()
	}
	if !r.ended.Load() {
		return Info{}, false, nil
	}
	return r.info, true, r.err
}

// Wait waits until the request has ended, and returns the message's description and the
// request's error. It makes the worker progress meanwhile. If ctx ends first, Wait returns the
// context's error and the request goes on.
func (r *Request) Wait(ctx context.Context) (Info, error) {
	if !r.ended.Load() {
		if err := r.worker.wait(ctx, r); err != nil {
			return Info{}, err
		}
	}
	return r.info, r.err
}

// Then sets a function that is called once when the request has ended, or at once if it has.
// The goroutine that makes progress calls it, so it must not block. It may start operations. A
// request has at most one such function.
func (r *Request) Then(f func(Info, error)) {
	w := r.worker
	w.mu.Lock()
	if !r.ended.Load() {
		r.then = f
		w.mu.Unlock()
		return
	}
	w.mu.Unlock()
	f(r.info, r.err)
}

// Cancel ends a receive that has no message yet, with ErrCanceled. It reports whether it did.
// Sends cannot be canceled.
func (r *Request) Cancel() bool {
	w := r.worker
	w.mu.Lock()
	defer w.unlock()
	return r.receiving && !r.ended.Load() && w.machine.Cancel(&r.receive)
}

// Release gives a request that has ended back to the worker, which uses it again. The program
// must not use the request any more. Release is optional: with it, short messages need no
// allocation.
func (r *Request) Release() {
	w := r.worker
	w.mu.Lock()
	defer w.mu.Unlock()
	if !r.ended.Load() || len(w.spare) >= maxSpare {
		return
	}
	*r = Request{worker: w}
	w.spare = append(w.spare, r)
}

// maxSpare bounds the requests that a worker keeps for reuse.
const maxSpare = 1024

// request returns an unused request. The caller holds the lock.
func (w *Worker) request() *Request {
	if n := len(w.spare); n > 0 {
		r := w.spare[n-1]
		w.spare = w.spare[:n-1]
		return r
	}
	return &Request{worker: w}
}

// end ends a request. The caller holds the lock.
func (r *Request) end(i Info, err error) {
	if r.region != nil {
		_ = r.region.Deregister() // no window is bound to it
		r.region = nil
	}
	r.info, r.err = i, err
	r.ended.Store(true)
	if r.done != nil {
		close(r.done)
	}
	if r.then != nil {
		r.worker.calls = append(r.worker.calls, call{r.then, i, err})
		r.then = nil
	}
}

// A call is a function of Then to call without the lock.
type call struct {
	f   func(Info, error)
	i   Info
	err error
}

// unlock releases the worker's lock and calls the functions of requests that ended.
func (w *Worker) unlock() {
	calls := w.calls
	w.calls = nil
	w.mu.Unlock()
	for _, c := range calls {
		c.f(c.i, c.err)
	}
}

// A Message is a message that Worker.Claim took.
type Message struct {
	Info
	m *tagged.Message
}
