package rpc

import (
	"softrdma/internal/carrier"
	"softrdma/internal/session"
)

const (
	controlFrames = 16  // control frames in flight
	controlLen    = 256 // bytes of a control frame
)

// tell sends a control frame.
func tell(c *carrier.Conn, h session.Header, body []byte) {
	if c.Err != nil {
		return
	}
	h.Length = uint64(len(body))
	n := session.HeaderLen + len(body)
	b := c.Reserve(n)
	now := b != nil
	if !now {
		b = make([]byte, n)
	}
	h.Put(b)
	copy(b[session.HeaderLen:], body)
	if now {
		c.Commit(n)
	} else {
		c.Add(b)
	}
}

// send sends the frame of n bytes in a slot, and writes into it where the body is that did not fit.
func send(c *carrier.Conn, slot, n int, frame []byte, far *Buffer) {
	if far != nil {
		r, err := far.span.On(c.Rail)
		if err == nil {
			session.PutFar(frame, r.Addr(), r.RKey())
		} else {
			c.Break(err)
		}
	}
	c.Send(slot, n)
}
