package msg

import (
	"context"
	"fmt"

	"softrdma/internal/tagged"
	"softrdma/verbs"
)

// An Endpoint sends to one worker.
type Endpoint struct{ c *connection }

// Send sends a message of at most verbs.MaxMessage bytes. The request ends when the program may
// change data again; the message may not have arrived then. If the peer fails, the request ends
// with an error that matches ErrPeer.
func (e *Endpoint) Send(tag uint64, data []byte) *Request { return e.send(tag, data, false) }

// SendSync is like Send, but the request ends only after the peer has matched the message with a
// receive.
func (e *Endpoint) SendSync(tag uint64, data []byte) *Request { return e.send(tag, data, true) }

func (e *Endpoint) send(tag uint64, data []byte, sync bool) *Request {
	c := e.c
	w := c.w
	w.mu.Lock()
	defer w.unlock()
	r := w.request()
	if len(data) > verbs.MaxMessage {
		r.end(Info{tag, len(data)}, fmt.Errorf("%w: %d bytes, expected at most %d", ErrTooLong, len(data), verbs.MaxMessage))
		return r
	}
	r.send = tagged.Send{Tag: tag, Data: data, Sync: sync, Context: r}
	w.machine.Send(c.peer, &r.send)
	w.flush()
	return r
}

// Err returns nil while the endpoint works, and then an error that says why it failed.
func (e *Endpoint) Err() error {
	e.c.w.mu.Lock()
	defer e.c.w.mu.Unlock()
	return e.c.err
}

// Close waits until all sends have ended and their frames have arrived, and all accesses are complete
// (see Flush), or ctx ends, and ends the connection. It returns the context's error, or the endpoint's if that failed before. With a
// context that has ended, Close does not wait. A second Close does nothing.
func (e *Endpoint) Close(ctx context.Context) error {
	c := e.c
	w := c.w
	w.mu.Lock()
	if c.err != nil {
		w.unlock()
		return nil
	}
	if c.idle == nil {
		c.idle = w.request()
		c.pipeline.add(&access{kind: accessFlush})
	}
	r := c.idle
	c.push()
	w.unlock()
	_, err := r.Wait(ctx)
	w.mu.Lock()
	defer w.unlock()
	c.fail(ErrClosed)
	return err
}
