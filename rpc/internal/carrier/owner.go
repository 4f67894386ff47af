package carrier

import "softrdma/internal/session"

// An Owner is a session of a client or of a server. The engine's lock is held in all calls.
type Owner interface {
	// Arrive takes a frame. It returns true to keep the receive until Conn.Release.
	Arrive(c *Conn, h *session.Header, body []byte, at int) (keep bool, err error)
	// Sent tells that the frame of a slot was sent, or will never be.
	Sent(c *Conn, slot int)
	// Fetched tells that the READ of a slot has ended.
	Fetched(c *Conn, slot int, err error)
	// Far returns the memory of the body that the frame of a slot announces, nil if the body is in it.
	Far(slot int) *Span
	// Broken tells that the connection has ended and uses no memory any more.
	Broken(c *Conn)
}
