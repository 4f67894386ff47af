package rpc

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"softrdma/internal/session"
)

// A Call is a request that a handler answers. It is valid until the handler returns. It is also the
// handler's context, which ends with the client's deadline, when the client does not wait any more,
// and when the handler returns.
type Call struct {
	task     *task
	codec    Codec
	body     []byte
	extra    []byte // headers
	deadline time.Time

	inline int     // bytes of the answer in the frame
	answer *Buffer // an answer that is too long for the frame
	frame  []byte  // room for an answer in the frame

	headers, answerHeaders Headers

	mu    sync.Mutex
	err   error
	done  chan struct{}
	timer *time.Timer
}

var _ context.Context = (*Call)(nil)

// Body returns the body of the request. It is registered memory of the server, which must not be
// used after the handler has returned.
func (c *Call) Body() []byte { return c.body }

// Method returns the name of the method: "service/method".
func (c *Call) Method() string { return c.task.proc.full }

// Peer returns the address of the client.
func (c *Call) Peer() netip.AddrPort { return c.task.owner.peer }

// Decode stores the value of the request's body in v, a pointer.
func (c *Call) Decode(v any) error {
	if err := c.codec.Decode(c.body, v); err != nil {
		return &Error{BadBody, fmt.Sprintf("%s: the request: %v", c.task.proc.full, err)}
	}
	return nil
}

// Encode makes the encoding of v the body of the answer.
func (c *Call) Encode(v any) error {
	if b, ok := v.(*Buffer); ok {
		return c.Reply(b)
	}
	c.reset()
	b, err := c.codec.Append(c.frame, v)
	if err != nil {
		return &Error{BadBody, fmt.Sprintf("%s: the answer: %v", c.task.proc.full, err)}
	}
	if len(b) <= cap(c.frame) {
		c.inline = copy(c.frame[:len(b)], b) // in place unless the codec took other memory
		return nil
	}
	far, err := c.Reserve(len(b))
	copy(far, b)
	return err
}

// Reserve makes the body of the answer n bytes long, and returns its memory for the handler to
// fill. It is not copied. The bytes are undefined at first.
func (c *Call) Reserve(n int) ([]byte, error) {
	c.reset()
	if n >= 0 && n <= cap(c.frame) {
		c.inline = n
		return c.frame[:n], nil
	}
	b, err := c.Buffer(n)
	if err != nil {
		return nil, err
	}
	c.answer = b
	return b.Bytes(), nil
}

// Buffer returns registered memory of n bytes for Reply. The handler releases it, or gives it to
// Reply.
func (c *Call) Buffer(n int) (*Buffer, error) {
	if limit := c.task.owner.client.Body; n < 0 || uint64(n) > limit {
		return nil, &Error{TooLarge, fmt.Sprintf("%s: an answer of %d bytes, the client accepts %d", c.task.proc.full, n, limit)}
	}
	return c.task.owner.pool.get(n)
}

// Reply makes a buffer the body of the answer, and releases it when the client has it.
func (c *Call) Reply(b *Buffer) error {
	c.reset()
	if b.n > cap(c.frame) && b.pool == c.task.owner.pool {
		c.answer = b
		return nil
	}
	defer b.Release()
	to, err := c.Reserve(b.n)
	copy(to, b.Bytes())
	return err
}

// Keep returns the body of a request that the server has read from the client's memory, so that it
// can be used after the handler has returned, until it is released. Of a short request, which
// arrived in a frame, it returns a copy.
func (c *Call) Keep() (*Buffer, error) {
	if b := c.task.in; b != nil {
		b.hold()
		return b, nil
	}
	b, err := c.task.owner.pool.get(len(c.body))
	if err == nil {
		copy(b.Bytes(), c.body)
	}
	return b, err
}

// reset drops the answer.
func (c *Call) reset() {
	c.inline = 0
	if c.answer != nil {
		c.answer.Release()
		c.answer = nil
	}
}

// Deadline implements context.Context.
func (c *Call) Deadline() (time.Time, bool) { return c.deadline, !c.deadline.IsZero() }

// Done implements context.Context.
func (c *Call) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		switch {
		case c.err != nil:
			close(c.done)
		case !c.deadline.IsZero():
			c.timer = time.AfterFunc(time.Until(c.deadline), func() { c.cancel(context.DeadlineExceeded) })
		}
	}
	return c.done
}

// Err implements context.Context.
func (c *Call) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil && c.done == nil && !c.deadline.IsZero() && !time.Now().Before(c.deadline) {
		c.err = context.DeadlineExceeded
	}
	return c.err
}

// Value implements context.Context. A Call has no values.
func (*Call) Value(any) any { return nil }

// cancel ends the context.
func (c *Call) cancel(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
	if c.err != nil {
		return
	}
	c.err = err
	if c.done != nil {
		close(c.done)
	}
}

// newCall makes the call of a task.
func (t *task) newCall() *Call {
	s := t.owner
	frame := s.out.Bytes(int(t.slot))
	return &Call{task: t, codec: t.proc.Codec, body: t.body, extra: t.extra, deadline: t.deadline, frame: frame[session.HeaderLen:session.HeaderLen:s.frame]}
}
