package rdmacm

import (
	"net/netip"

	"softrdma/internal/cmid"
	"softrdma/internal/reason"
	"softrdma/verbs"
)

// A Conn is a connection: a queue pair in RTS whose peer is known. In PortSpaceUDP
// it is the queue pair that the peer learned in its lookup.
//
// It ends when either side disconnects. If the peer disappears without a message
// only the queue pair notices: posted requests complete with RetryExcErr.
type Conn struct {
	end   *end
	param ConnParam
}

// QP returns the connected queue pair.
func (c *Conn) QP() *verbs.QP { return c.end.id.QP() }

// SendCQ returns the completion queue of sends that was made with the connection, or nil if
// the configuration had one.
func (c *Conn) SendCQ() *verbs.CQ { return c.end.id.SendCQ() }

// RecvCQ returns the completion queue of receives that was made with the connection, or nil if
// the configuration had one.
func (c *Conn) RecvCQ() *verbs.CQ { return c.end.id.RecvCQ() }

// Device returns the device.
func (c *Conn) Device() *verbs.Device { return c.end.id.Device() }

// PD returns the connection's own protection domain. The first call makes it, and
// Close deallocates it.
func (c *Conn) PD() (*verbs.PD, error) { return c.end.id.PD() }

// PrivateData returns the peer's private data, padded with zeros.
func (c *Conn) PrivateData() []byte { return c.param.PrivateData }

// Param returns the peer's parameters: on the client those of the reply, on the
// server those of the request.
func (c *Conn) Param() ConnParam { return c.param }

// LocalAddr returns the local address and port.
func (c *Conn) LocalAddr() netip.AddrPort { return c.end.id.LocalAddr() }

// RemoteAddr returns the peer's address and port.
func (c *Conn) RemoteAddr() netip.AddrPort { return c.end.id.RemoteAddr() }

// Done returns a channel that is closed when the connection has ended: a side
// disconnected, or the device was closed. Then the queue pair is in ERR.
func (c *Conn) Done() <-chan struct{} { return c.end.done }

// Err returns nil while the connection is established, and then why it ended: the error wraps
// ErrDisconnected if a side disconnected, verbs.ErrClosed if the device was closed. It is set
// before the queue pair goes to ERR, so a program that finds flushed completions can already
// read it.
func (c *Conn) Err() error {
	if err := c.end.why(); err != nil || !c.end.id.speaks(verbs.IWARP) {
		return err
	}
	// The end of a stream moves the queue pair by itself, before the event arrives here.
	if c.end.id.c.State() == cmid.Disconnect {
		return disconnected(c.end.id.RemoteAddr(), reason.Detail{})
	}
	return c.end.why()
}

// Disconnect ends the connection: it moves the queue pair to ERR, which flushes
// posted requests, and tells the peer. It does not wait for the peer. Requests that
// have not completed may not have arrived.
func (c *Conn) Disconnect() error {
	if c.end.id.datagram() {
		return reason.NotSupported("disconnect: datagrams have no connection")
	}
	return c.end.leave()
}

// Close disconnects and destroys the queue pair, the completion queues and the
// protection domain that were made with the connection. It fails with ErrBusy if
// the program has objects left in that protection domain; everything else is
// destroyed then, and a second Close tries again.
func (c *Conn) Close() error {
	if !c.end.id.datagram() {
		_ = c.end.leave() // fails if the peer already knows
	}
	c.end.finish(disconnected("this side", reason.Detail{}), func() {})
	return events.release(c.end.id)
}
