package rdmanet

import (
	"errors"
	"fmt"
	"time"

	"softrdma/internal/reason"
	"softrdma/verbs"
)

// Close closes the connection. Waiting calls return net.ErrClosed, and the peer
// reads everything that was written and then io.EOF. Close waits until the peer's
// device has acknowledged that data (on iWARP if it can, see the package), at most
// as long as SetLinger says, and then frees the connection's resources. It returns an error if written data may not
// have arrived: the connection's error or os.ErrDeadlineExceeded. It returns no
// error if the peer closed the connection itself.
//
// With a linger of 0 Close abandons the connection: it does not wait and does not
// return the connection's error. The peer reads a *CutError, so it does not take a
// part of the stream for the whole.
func (c *Conn) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return c.opError("close", errClosed)
	}
	if m, send := c.life.Close(); send && c.linger > 0 {
		c.control(m)
	}
	c.closed = true
	c.r.deadline.end()
	c.w.deadline.end()
	c.timers.stop()
	c.x.deadline.set(time.Now().Add(c.linger))
	late := c.await(&c.x) != nil // data that did not arrive in time is lost
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

// undelivered returns why the peer's device may not have received all written data.
func (c *Conn) undelivered(late bool) error {
	switch {
	case c.linger <= 0:
	case c.lost:
		return c.err
	case late && c.unacknowledged() && !c.life.Left():
		return fmt.Errorf("the peer's device has not acknowledged all that was written within %v: %w", c.linger, errLate)
	}
	return nil
}

// release frees the connection's resources. Only foreign readers and writers may
// still use its memory.
func (c *Conn) release() error {
	_ = c.link.Disconnect() // fails if the peer has ended the connection
	err := errors.Join(kept(c.store.deregister()), kept(c.maps.close()),
		kept(c.link.Close()), kept(c.cq.Destroy()), kept(c.events.Destroy()), kept(c.pd.Dealloc()))
	c.forget()
	c.busy.release()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.freed = true; c.pins == 0 {
		err = errors.Join(err, c.store.free())
	}
	return err
}

// kept returns the error unless the device is gone, in which case all objects are
// gone too.
func kept(err error) error {
	if errors.Is(err, verbs.ErrClosed) {
		return nil
	}
	return err
}

func (t *timers) stop() {
	if t.alive != nil {
		t.alive.Stop()
	}
	if t.retry != nil {
		t.retry.Stop()
	}
}

// SetLinger sets how many seconds Close waits for the peer's device to acknowledge
// written data. A negative number selects the value of Options.Linger. With 0 Close
// abandons the connection.
func (c *Conn) SetLinger(sec int) error {
	d := time.Duration(sec) * time.Second
	if sec < 0 {
		d = DefaultLinger
	}
	return c.set(func() error { c.linger = d; return nil })
}

// SetKeepAlivePeriod sets the period of keep-alives; 0 or less turns them off. The
// connection fails if the peer's device does not answer. Over iWARP an answer of
// the peer's host is enough from then on, and the device keeps probing the peer's
// device with the period of Options.KeepAlive.
func (c *Conn) SetKeepAlivePeriod(d time.Duration) error {
	return c.set(func() error { c.keepAlive(d); return nil })
}

// SetReadBuffer checks the size of the receive buffer. A size up to the one at the
// start of the connection succeeds and a larger one fails with
// errors.ErrUnsupported. Set Options.ReadBuffer instead, or let the connection
// choose.
func (c *Conn) SetReadBuffer(bytes int) error {
	return c.set(func() error { return granted("read", bytes, len(c.store.recv)) })
}

// SetWriteBuffer checks the size of the send buffer, as SetReadBuffer does. Set
// Options.WriteBuffer instead.
func (c *Conn) SetWriteBuffer(bytes int) error {
	return c.set(func() error { return granted("write", bytes, len(c.store.sendArea.bytes)) })
}

func granted(what string, want, have int) error {
	if want > have {
		return reason.NotSupported("%s buffer of an existing connection: expected at most %d bytes, found %d", what, have, want)
	}
	return nil
}

func (c *Conn) set(f func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := errClosed
	if !c.closed {
		err = f()
	}
	if err != nil {
		return c.opError("set", err)
	}
	return nil
}

// keepAlive sets the period of keep-alives. The caller holds mu.
func (e *endpoint) keepAlive(d time.Duration) {
	if e.keep = d; e.alive != nil {
		e.alive.Stop()
	}
	switch {
	case d <= 0:
	case e.alive == nil:
		e.alive = time.AfterFunc(d, e.ask)
	default:
		e.alive.Reset(d)
	}
}

// ask sends a keep-alive: a WRITE of no bytes, as in rsockets. The peer's device
// acknowledges it and its program does not see it.
func (e *endpoint) ask() {
	if !e.begin() {
		return
	}
	defer e.end()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || e.life.Gone() || e.keep <= 0 {
		return
	}
	e.progress()
	if e.paused() {
		e.shrinkRing()
		e.skip()
	}
	if e.controls < controlSlots && !e.life.Gone() {
		e.wr[0] = verbs.SendWR{WRID: workControl, Op: verbs.OpWrite}
		if e.send(1) {
			e.controls++
		}
	}
	e.alive.Reset(e.keep)
}
