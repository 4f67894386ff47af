package carrier

import "softrdma/internal/session"

// An Owner is a session of a client or of a server. The engine's lock is held in all calls.
type Owner interface {
	// Arrive takes a frame. It returns true to keep the receive until Conn.Release.
	Arrive(c *Conn, h *session.Header, body []byte, at int) (keep bool, err error)
	// Sent reports that the frame of a slot was sent, or never will be.
	Sent(c *Conn, slot int)
	// Fetched reports that the READ of a slot has ended.
	Fetched(c *Conn, slot int, err error)
	// Far returns the memory of the body that the frame of a slot announces, or nil if the body is in the
	// frame.
	Far(slot int) *Span
	// Broken reports that the connection has ended and uses no memory any more.
	Broken(c *Conn)
}
