package msg

import (
	"context"
	"fmt"

	"softrdma/verbs"
)

// An Endpoint sends to one worker.
type Endpoint struct{ c *connection }

// Send sends a message of at most verbs.MaxMessage bytes. The request ends when the program may
// change data again; the message may not have arrived then, unless the options ask for that. If the peer
// fails, the request ends with an error that matches ErrPeer.
func (e *Endpoint) Send(tag uint64, data Buffers, o *SendOptions) *Request {
	w := e.c.w
	w.e.Lock()
	defer w.unlock()
	r := w.request()
	r.send.Data, r.send.Length = r.pieces(data)
	r.send.Tag, r.send.Sync = tag, o != nil && o.Sync
	e.post(r)
	return r
}

// post starts a send.
func (e *Endpoint) post(r *Request) {
	w, s := e.c.w, &r.send
	if s.Length > verbs.MaxMessage {
		r.end(Info{s.Tag, s.Length}, fmt.Errorf("%w: %d bytes, expected at most %d", ErrTooLong, s.Length, verbs.MaxMessage))
		return
	}
	if e.c.closing && e.c.err == nil {
		r.end(Info{s.Tag, s.Length}, ErrClosed)
		return
	}
	s.Context = r
	w.machine.Send(e.c.peer, s)
	w.e.Flush()
}

// Err returns nil while the endpoint works, and then an error that says why it failed.
func (e *Endpoint) Err() error {
	e.c.w.e.Lock()
	defer e.c.w.e.Unlock()
	return e.c.err
}

// Close waits until all sends have ended and their frames have arrived, and all accesses are
// complete (see Flush), or ctx ends, and ends the connection. It returns the context's error, or the
// endpoint's if that failed before. New sends end with ErrClosed meanwhile. With a context that has
// ended, Close does not wait. A Close of an endpoint that has failed does nothing. If the peer closes
// meanwhile the error matches ErrPeerClosed: see the package's section about the end.
func (e *Endpoint) Close(ctx context.Context) error {
	_, err := e.StartClose().Wait(ctx)
	e.Abort()
	return err
}

// StartClose is like Close, but does not wait: the returned request ends when the connection has
// ended.
func (e *Endpoint) StartClose() *Request {
	c := e.c
	w := c.w
	w.e.Lock()
	defer w.unlock()
	r := w.request()
	if c.err != nil {
		r.end(Info{}, nil)
		return r
	}
	if c.idle = append(c.idle, r); !c.closing {
		c.addFlush(nil)
		c.closing = true
		if c.group == nil {
			c.SignalAll() // the last frames have completions
		}
	}
	c.Mark()
	w.e.Flush()
	return r
}

// close ends a connection on which nothing is in flight.
func (c *connection) close() {
	idle := c.idle
	c.idle = nil
	c.fail(ErrClosed)
	for _, r := range idle {
		r.end(Info{}, nil)
	}
}

// Abort ends the connection at once. Requests that wait for the peer end with errors that match
// ErrClosed, and what they sent may not have arrived. Abort of an endpoint that has failed does
// nothing.
func (e *Endpoint) Abort() {
	w := e.c.w
	w.e.Lock()
	defer w.unlock()
	e.c.fail(ErrClosed)
}
