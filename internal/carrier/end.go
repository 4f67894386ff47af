package carrier

import (
	"errors"
	"fmt"

	"softrdma/verbs"
)

// ErrRefused is matched by the error of a connection that ended because a peer refused an access.
var ErrRefused = errors.New("access to a region refused")

// ErrTooLong is matched by the error of a connection that ended because its owner sent a frame that is
// longer than its slots.
var ErrTooLong = errors.New("frame is longer than the slots of its connection")

// Cause returns why a connection has failed whose queue pair returned an unsuccessful completion. End
// is why the connection had ended before, if it had: that is the cause of flushed work. Both ends of a
// refused access report the refusal.
func Cause(wc *verbs.WC, end error) error {
	err := wc.Err()
	status := wc.Status
	if e := (*verbs.CompletionError)(nil); status == verbs.WRFlushErr && errors.As(err, &e) {
		status = verbs.Status(e.Found()) // of the first error
	}
	switch {
	case status == verbs.RemAccessErr, status == verbs.LocAccessErr: // at the two ends
		return fmt.Errorf("%w: %w", ErrRefused, err)
	case end != nil:
		return end
	}
	return err
}

// Break makes the next push end the connection.
func (c *Conn) Break(err error) {
	if c.broken == nil {
		c.broken = err
		c.Mark()
	}
}

// Broken reports whether that is due.
func (c *Conn) Broken() bool { return c.broken != nil }

// lose ends a connection for a reason that is not the owner's.
func (c *Conn) lose(err error) {
	if c.Err != nil {
		return
	}
	if c.started {
		c.owner.Drain(c)
	}
	c.Fail(err)
}

// Fail ends the connection.
func (c *Conn) Fail(err error) {
	if c.Err != nil {
		return
	}
	c.Err = err
	if c.started { // otherwise Start ends it, or its maker discards it
		c.finish()
	}
}

// finish tells the owner that the connection has failed, and once more when it is released.
func (c *Conn) finish() {
	e := c.e
	e.Ending.Add(1)
	c.owner.Failed(c)
	go func() {
		defer e.Ending.Done()
		c.Discard()
	}()
}

// Discard releases what there is of a connection that was not started.
func (c *Conn) Discard() {
	if c.CM != nil {
		_ = c.CM.Close() // the peer may have closed it
	}
	if c.qp != nil {
		_ = c.qp.Destroy() // afterwards the device uses no memory of the connection
	}
	e := c.e
	e.Lock()
	defer e.host.Unlock()
	e.Progress() // takes what is left
	e.unreserve(c)
	c.gone = true
	c.slots.out.Free()
	c.receives.free()
	if c.started {
		giveBack(c)
		c.owner.Released(c)
		e.Flush()
	}
}

// giveBack ends what will never complete.
func giveBack(c *Conn) {
	for _, m := range c.Rescue() {
		m.By.Moved(c, m, c.Err)
	}
	for c.slots.sent.n > 0 {
		c.freeSlot(c.slots.sent.take())
	}
	c.reads.giveBack(c)
	backlog := c.backlog
	c.backlog = nil
	for i := range backlog {
		switch x := &backlog[i]; {
		case x.move.By != nil:
			x.move.By.Moved(c, x.move, c.Err)
		case x.frame == nil && !x.begun:
			c.owner.Sent(c, x.slot)
		}
	}
}
