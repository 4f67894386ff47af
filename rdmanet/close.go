package rdmanet

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"softrdma/verbs"
)

// Close closes the connection: calls that wait return net.ErrClosed, the peer
// reads what was written and then io.EOF. Close waits until the peer's device
// has got that, as long as SetLinger says, and gives up what the connection is
// made of. Its error tells of what was written and has not arrived, as far as
// this end knows: that of the connection, or os.ErrDeadlineExceeded. A peer that
// closed on its own is no error.
//
// With a linger of 0 Close abandons the connection: it does not wait, gives no
// error of the connection's, and the peer reads a *CutError, so that it does
// not take a part for the whole.
func (c *Conn) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return c.opError("close", net.ErrClosed)
	}
	if m, send := c.life.Close(); send && c.linger > 0 {
		c.control(m)
	}
	c.closed = true
	c.r.deadline.end()
	c.w.deadline.end()
	c.stopTimers()
	c.x.deadline.set(time.Now().Add(c.linger))
	late := c.await(&c.x) != nil // what the time did not suffice for is given up
	lost := c.undelivered(late)
	c.life.End()
	c.mu.Unlock()
	c.x.deadline.stop()
	c.r.deadline.stop()
	c.w.deadline.stop()
	c.end()
	<-c.idle
	if err := errors.Join(lost, c.release()); err != nil {
		return c.opError("close", err)
	}
	return nil
}

// undelivered is why the peer's device may not have got what was written.
func (c *Conn) undelivered(late bool) error {
	switch {
	case c.linger <= 0:
	case c.lost:
		return c.err
	case late && c.posted > 0 && !c.life.Left():
		return fmt.Errorf("the peer's device has not acknowledged all that was written within %v: %w", c.linger, os.ErrDeadlineExceeded)
	}
	return nil
}

// release gives up what the connection is made of. Nobody uses it any more but
// foreign calls that have some of its memory.
func (c *Conn) release() error {
	_ = c.link.Disconnect() // refused where the peer has ended it
	err := errors.Join(kept(c.store.deregister()), kept(c.maps.close()),
		kept(c.link.Close()), kept(c.cq.Destroy()), kept(c.events.Destroy()), kept(c.pd.Dealloc()))
	c.busy.release()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.freed = true; c.pins == 0 {
		err = errors.Join(err, c.store.mem.Free())
	}
	return err
}

// kept is an error that matters: that the device is gone, and everything with
// it, does not.
func kept(err error) error {
	if errors.Is(err, verbs.ErrClosed) {
		return nil
	}
	return err
}

func (c *Conn) stopTimers() {
	if c.alive != nil {
		c.alive.Stop()
	}
	if c.kick != nil {
		c.kick.Stop()
	}
}

// SetLinger sets for how long Close waits for the peer's device to get what
// was written: so many seconds; a negative number sets Options.Linger's
// default. With 0 Close abandons the connection.
func (c *Conn) SetLinger(sec int) error {
	d := time.Duration(sec) * time.Second
	if sec < 0 {
		d = DefaultLinger
	}
	return c.set(func() error { c.linger = d; return nil })
}

// SetKeepAlivePeriod sets how often the peer's device is asked whether it is
// there; 0 and less means never. Without an answer the connection fails. Over iWARP
// the answer of the peer's host is enough from then on, and its device goes on being asked
// as Options.KeepAlive has said.
func (c *Conn) SetKeepAlivePeriod(d time.Duration) error {
	return c.set(func() error { c.keepAlive(d); return nil })
}

// SetReadBuffer asks for a receive buffer of that many bytes. The peer was told
// of the buffer when the connection was made, so it does not change: a size
// that it has is granted, a larger one is refused with errors.ErrUnsupported.
// Set Options.ReadBuffer.
func (c *Conn) SetReadBuffer(bytes int) error {
	return c.set(func() error { return granted("read", bytes, len(c.store.recv)) })
}

// SetWriteBuffer asks for a send buffer of that many bytes, as SetReadBuffer.
// Set Options.WriteBuffer.
func (c *Conn) SetWriteBuffer(bytes int) error {
	return c.set(func() error { return granted("write", bytes, len(c.store.send)) })
}

func granted(what string, want, have int) error {
	if want > have {
		return fmt.Errorf("%s buffer of a connection that is there: at most %d bytes expected, found %d: %w", what, have, want, errors.ErrUnsupported)
	}
	return nil
}

func (c *Conn) set(f func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := net.ErrClosed
	if !c.closed {
		err = f()
	}
	if err != nil {
		return c.opError("set", err)
	}
	return nil
}

// keepAlive sets the period of keep-alives; mu is held.
func (c *Conn) keepAlive(d time.Duration) {
	if c.keep = d; c.alive != nil {
		c.alive.Stop()
	}
	switch {
	case d <= 0:
	case c.alive == nil:
		c.alive = time.AfterFunc(d, c.ask)
	default:
		c.alive.Reset(d)
	}
}

// ask sends a keep-alive: a WRITE of no bytes, which the peer's device
// acknowledges and its program does not see. It is rsockets' too.
func (c *Conn) ask() {
	if !c.begin() {
		return
	}
	defer c.end()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.life.Gone() || c.keep <= 0 {
		return
	}
	c.progress()
	if c.controls < controlSlots && !c.life.Gone() {
		c.wr[0] = verbs.SendWR{WRID: workControl, Op: verbs.OpWrite}
		if c.send(1) {
			c.controls++
		}
	}
	c.alive.Reset(c.keep)
}
