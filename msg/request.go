package msg

import (
	"context"
	"errors"
	"sync/atomic"

	"softrdma/internal/message"
	"softrdma/msg/internal/access"
	"softrdma/msg/internal/format"
	"softrdma/msg/internal/regcache"
	"softrdma/verbs"
)

// All is the mask of a receive that takes exactly one tag. The mask 0 takes every message.
const All uint64 = 1<<64 - 1

// The errors of requests.
var (
	// ErrTruncated ends a receive whose buffer is shorter than the message. Info has the
	// message's length. The rest of the message is lost.
	ErrTruncated = message.ErrTruncated
	// ErrCanceled ends a receive that Request.Cancel canceled.
	ErrCanceled = message.ErrCanceled
	// ErrPeer is matched by the errors of requests whose peer has failed or closed. The errors
	// also match the cause.
	ErrPeer = errors.New("peer is gone")
	// ErrPeerClosed is matched by the errors of requests whose peer has closed the endpoint or its
	// worker, which is no failure. The errors also match ErrPeer. See the section about the end in
	// the package's documentation.
	ErrPeerClosed error = peerClosed{}
	// ErrFrame is matched by the error of a connection whose peer sent what is no frame of the
	// protocol.
	ErrFrame = message.ErrFrame
	// ErrLimit is matched by the error of a connection whose peer sent more messages or bytes than
	// Config allows.
	ErrLimit = message.ErrLimit
	// ErrTooLong is matched by the error of a send of more than verbs.MaxMessage bytes, or of a
	// header of more than MaxHeader.
	ErrTooLong = format.ErrTooLong
	// ErrHandler is matched by the error of a send of announced data to a worker that has no handler
	// for the message's ID.
	ErrHandler = message.ErrHandler
	// ErrReceived ends a second receive of one Message or Active.
	ErrReceived = errors.New("message was received before")
	// ErrClosed is the error of operations on a closed worker or endpoint.
	ErrClosed = errors.New("closed")
)

// A peerClosed is ErrPeerClosed, which matches ErrPeer as well.
type peerClosed struct{}

func (peerClosed) Error() string { return "peer has closed the connection" }

func (peerClosed) Is(target error) bool { return target == ErrPeer }

// Info describes a message.
type Info struct {
	Tag    uint64 // of an active message its ID
	Length int    // in bytes
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

	send      message.Send
	receive   message.Receive
	receiving bool                     // receive waits for a tag
	stream    *connection              // of which receive receives the stream
	one       [1][]byte                // the bytes, if they are in one piece
	exposed   []*verbs.MR              // that the peer reads
	memory    []*regcache.Registration // that READs fill
	via       *connection              // by which the message is read or written
	peers     []message.Segment        // the memory of the message at the peer, for each rail of a group
	reads     int                      // READs and WRITEs of the message that have not ended
	joined    []byte                   // where the peer writes instead of to many pieces
	accesses  access.Operation
}

// Buffers are the bytes of a message, or memory for one, in pieces, which are gathered or filled one after
// the other without another copy. The program may change the list when the call has returned. Bytes in one
// piece are Buffers{b}.
type Buffers [][]byte

// SendOptions say how a message is sent. Nil stands for the zero value.
type SendOptions struct {
	// Sync ends the request of Endpoint.Send only after the peer has matched the message with a receive.
	Sync bool
	// Announce leaves the data of Endpoint.SendActive where it is even if it is short: the handler decides
	// where it goes.
	Announce bool
}

// StreamOptions say how bytes of a stream are received. Nil stands for the zero value.
type StreamOptions struct {
	// Full ends the request only when the memory is full. If the peer fails before, Info has the number of
	// bytes that arrived.
	Full bool
}

// pieces returns a copy of a list of pieces of bytes, and their length.
func (r *Request) pieces(list Buffers) (own [][]byte, length int) {
	if len(list) == 1 {
		r.one[0] = list[0]
		return r.one[:], len(list[0])
	}
	for _, b := range list {
		length += len(b)
	}
	return append(r.one[:0], list...), length
}

// Done returns a channel that is closed when the request has ended. With ProgressCaller some
// goroutine must make progress meanwhile.
func (r *Request) Done() <-chan struct{} {
	w := r.worker
	w.e.Lock()
	defer w.e.Unlock()
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
// context's error and the request continues.
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
	w.e.Lock()
	if !r.ended.Load() {
		r.then = f
		w.e.Unlock()
		return
	}
	w.e.Unlock()
	f(r.info, r.err)
}

// Cancel ends a receive that has no message yet, or no bytes of a stream, with ErrCanceled. It
// reports whether it did. Sends cannot be canceled.
func (r *Request) Cancel() bool {
	w := r.worker
	w.e.Lock()
	defer w.unlock()
	switch {
	case r.ended.Load():
		return false
	case r.stream != nil:
		return w.machine.CancelStream(r.stream.peer, &r.receive)
	}
	return r.receiving && w.machine.Cancel(&r.receive)
}

// Release gives a request that has ended back to the worker, which uses it again. The program
// must not use the request any more. Release is optional: with it, short messages need no
// allocation.
func (r *Request) Release() {
	w := r.worker
	w.e.Lock()
	defer w.e.Unlock()
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
	r.worker.exposed -= len(r.exposed)
	for _, m := range r.exposed {
		_ = m.Deregister() // no window is bound to it
	}
	for _, m := range r.memory {
		m.Release()
	}
	if r.exposed, r.memory = nil, nil; r.joined != nil {
		if err == nil {
			message.Scatter(r.receive.Buffer, r.joined)
		}
		r.joined = nil
	}
	r.info, r.err = i, err
	r.ended.Store(true)
	if r.done != nil {
		close(r.done)
	}
	if r.then != nil {
		r.worker.calls = append(r.worker.calls, call{then: r.then, info: i, err: err})
		r.then = nil
	}
}

// A Message is a message that Worker.Claim took.
type Message struct {
	Info
	m *message.Message
}
