package msg

import (
	"context"
	"fmt"

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

// SendVec is like Send for a message in pieces. The program may change the list at once.
func (e *Endpoint) SendVec(tag uint64, data [][]byte) *Request { return e.sendVec(tag, data, false) }

// SendSyncVec is like SendSync for a message in pieces. The program may change the list at once.
func (e *Endpoint) SendSyncVec(tag uint64, data [][]byte) *Request {
	return e.sendVec(tag, data, true)
}

func (e *Endpoint) send(tag uint64, data []byte, sync bool) *Request {
	w := e.c.w
	w.mu.Lock()
	defer w.unlock()
	r := w.request()
	r.send.Data, r.send.Length = r.piece(data)
	r.send.Tag, r.send.Sync = tag, sync
	e.post(r)
	return r
}

func (e *Endpoint) sendVec(tag uint64, data [][]byte, sync bool) *Request {
	w := e.c.w
	w.mu.Lock()
	defer w.unlock()
	r := w.request()
	r.send.Data, r.send.Length = r.pieces(data)
	r.send.Tag, r.send.Sync = tag, sync
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
	s.Context = r
	w.machine.Send(e.c.peer, s)
	w.flush()
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
