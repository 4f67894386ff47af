package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"

	"softrdma/verbs"
)

// A message is what the two ends of a measurement over many queue pairs tell each other. Do is its
// type; which other fields it has depends on that.
type message struct {
	Do        string           `json:"do"`
	Endpoints []verbs.Endpoint `json:"endpoints,omitempty"`
	Addr      uint64           `json:"addr,omitempty"`
	RKey      uint32           `json:"rkey,omitempty"`
	CPU       float64          `json:"cpu,omitempty"` // seconds
}

// Types of messages.
const (
	doConnect = "connect"
	doReady   = "ready"
	doBegin   = "begin"
	doEnd     = "end"
	doDone    = "done"
)

// A control is one end of the connection for messages.
type control struct {
	out *json.Encoder
	in  chan message
}

// newControl starts reading messages. When the peer ends, the returned context ends with the reason
// as its cause.
func newControl(ctx context.Context, conn net.Conn) (*control, context.Context) {
	ctx, end := context.WithCancelCause(ctx)
	c := &control{json.NewEncoder(conn), make(chan message, 4)}
	go func() {
		in := json.NewDecoder(conn)
		for {
			var m message
			if err := in.Decode(&m); err != nil {
				end(fmt.Errorf("the other end: %w", err))
				return
			}
			select {
			case c.in <- m:
			case <-ctx.Done():
				return
			}
		}
	}()
	return c, ctx
}

// expect returns the peer's next message, which must have the given type.
func (c *control) expect(ctx context.Context, what string) (m message, err error) {
	select {
	case m = <-c.in:
	case <-ctx.Done():
		select {
		case m = <-c.in: // arrived before the end
		default:
			return m, context.Cause(ctx)
		}
	}
	if m.Do != what {
		return m, fmt.Errorf("control connection: expected %q, found %q", what, m.Do)
	}
	return m, nil
}

// ask sends a message and returns the answer, which must have the given type.
func (c *control) ask(ctx context.Context, m message, what string) (message, error) {
	if err := c.out.Encode(m); err != nil {
		return m, err
	}
	return c.expect(ctx, what)
}
