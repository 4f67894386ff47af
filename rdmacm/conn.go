package rdmacm

import (
	"net/netip"

	"softrdma/internal/cmid"
	"softrdma/internal/reason"
	"softrdma/verbs"
)

// A Conn is a connection: a queue pair in RTS whose peer is known. In
// PortSpaceUDP it is the queue pair that the peer was told of.
//
// It ends when either side disconnects. A peer that dies without a word is
// noticed by the queue pair alone: what is posted completes with RetryExcErr.
type Conn struct {
	end   *end
	param ConnParam
}

// QP is the connected queue pair.
func (c *Conn) QP() *verbs.QP { return c.end.id.QP() }

// SendCQ is the completion queue of its sends, where it was made with the
// connection; else nil, as RecvCQ.
func (c *Conn) SendCQ() *verbs.CQ { return c.end.id.SendCQ() }

// RecvCQ is the completion queue of its receives.
func (c *Conn) RecvCQ() *verbs.CQ { return c.end.id.RecvCQ() }

// Device is the device.
func (c *Conn) Device() *verbs.Device { return c.end.id.Device() }

// PD is the connection's own protection domain, made at the first call and
// deallocated with the connection.
func (c *Conn) PD() (*verbs.PD, error) { return c.end.id.PD() }

// PrivateData is what the peer sent along, padded with zeros.
func (c *Conn) PrivateData() []byte { return c.param.PrivateData }

// Param is what the peer sent: on the client's side the reply, on the server's
// the request.
func (c *Conn) Param() ConnParam { return c.param }

// LocalAddr is the local address and port.
func (c *Conn) LocalAddr() netip.AddrPort { return c.end.id.LocalAddr() }

// RemoteAddr is the peer's address and port.
func (c *Conn) RemoteAddr() netip.AddrPort { return c.end.id.RemoteAddr() }

// Done is closed when the connection has ended: either side disconnected, or
// the device is gone. The queue pair is in ERR then.
func (c *Conn) Done() <-chan struct{} { return c.end.done }

// Err is nil while the connection stands, and then why it ended: wraps
// ErrDisconnected where a side disconnected, verbs.ErrClosed where the device
// is gone. It is there before the queue pair is in ERR: who finds flushed
// completions finds the reason as well.
func (c *Conn) Err() error {
	if err := c.end.why(); err != nil || !c.end.id.iwarp() {
		return err
	}
	// The end of a stream moves the queue pair by itself, before the event of it
	// has come here.
	if c.end.id.c.State() == cmid.Disconnect {
		return disconnected(c.end.id.RemoteAddr())
	}
	return c.end.why()
}

// Disconnect ends the connection: the queue pair goes to ERR, which flushes
// what is posted, and the peer is told. It does not wait for the peer. What was
// posted and has not completed may not have arrived.
func (c *Conn) Disconnect() error {
	if c.end.id.datagram() {
		return reason.NotSupported("disconnect: datagrams have no connection")
	}
	return c.end.leave()
}

// Close disconnects and gives the queue pair, its own completion queues and
// its own protection domain up. It fails with ErrBusy where the program has
// objects left in that protection domain; everything else is gone then, and a
// second Close tries again.
func (c *Conn) Close() error {
	if !c.end.id.datagram() {
		_ = c.end.leave() // refused where the peer knows already
	}
	c.end.finish(disconnected("this side"), func() {})
	return events.release(c.end.id)
}
