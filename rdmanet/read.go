package rdmanet

import (
	"errors"
	"io"
)

// Read reads data that has arrived. It waits until there is at least one byte,
// unless p is empty. It returns io.EOF if the peer has closed its direction or the
// connection. If the connection ends in any other way, it returns a *CutError,
// which wraps io.ErrUnexpectedEOF: the peer was killed, or an attacker cut the
// connection.
func (c *Conn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	c.r.turn.Lock()
	defer c.r.turn.Unlock()
	n, err := c.read(p)
	return n, c.readError(err)
}

func (c *Conn) readError(err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	return c.opError("read", err)
}

func (c *Conn) read(p []byte) (n int, err error) {
	if !c.begin() {
		return 0, errClosed
	}
	defer c.end()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.awaitData(); err != nil {
		return 0, err
	}
	for n < len(p) && c.rx.Unread() > 0 {
		from := c.store.piece(c.rx.Next())
		k := min(len(from), len(p)-n)
		from = from[:k]
		if k > smallCopy {
			c.mu.Unlock()
			copy(p[n:], from)
			c.mu.Lock()
		} else {
			copy(p[n:], from)
		}
		n += k
		if c.noRead { // CloseRead has discarded all data meanwhile
			break
		}
		c.rx.Consume(k)
	}
	c.update()
	return n, nil
}

// awaitData waits until there is data to read.
func (c *Conn) awaitData() error {
	if c.noRead && !c.closed {
		return io.EOF
	}
	err := c.await(&c.r)
	switch {
	case err != nil:
		return err
	case c.noRead:
		return io.EOF
	case c.rx.Unread() > 0:
		return nil
	case c.life.Ended():
		return io.EOF
	}
	return c.cut()
}

// WriteTo writes arriving data to w until the peer closes its direction. w receives
// the data directly from registered memory. Like Read, it returns a *CutError for a
// stream that was cut. It implements io.WriterTo.
func (c *Conn) WriteTo(w io.Writer) (total int64, err error) {
	c.r.turn.Lock()
	defer c.r.turn.Unlock()
	for {
		piece, err := c.borrow()
		if err != nil {
			if err == io.EOF {
				err = nil
			}
			return total, c.readError(err)
		}
		n, err := w.Write(piece)
		if n < 0 || n > len(piece) {
			n, err = 0, errors.Join(errors.New("rdmanet: a Writer returned a count that cannot be"), err)
		}
		c.giveBack(n)
		total += int64(n)
		switch {
		case err != nil:
			return total, err
		case n < len(piece):
			return total, io.ErrShortWrite
		}
	}
}

// borrow waits for data and returns it in place in the receive buffer. The memory
// remains valid until giveBack, even if the connection is closed.
func (c *Conn) borrow() ([]byte, error) {
	if !c.begin() {
		return nil, errClosed
	}
	defer c.end()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.awaitData(); err != nil {
		return nil, err
	}
	c.pins++
	b := c.store.piece(c.rx.Next())
	return b[:min(len(b), maxTransfer)], nil
}

// giveBack ends borrow after n bytes were used.
func (c *Conn) giveBack(n int) {
	using := c.begin()
	c.mu.Lock()
	if using && !c.noRead {
		c.rx.Consume(n)
		c.update()
	}
	c.unpin()
	c.mu.Unlock()
	if using {
		c.end()
	}
}

// unpin ends the use of the memory by a foreign reader or writer. The caller holds
// mu.
func (e *endpoint) unpin() {
	if e.pins--; e.pins == 0 && e.freed {
		_ = e.store.free() // Close has deregistered it
	}
}

// CloseRead ends reading: Read returns io.EOF from now on, and arriving data is
// discarded. The peer is notified only if CloseWrite was called before, which ends
// the connection.
func (c *Conn) CloseRead() error {
	if !c.begin() {
		return c.opError("close", errClosed)
	}
	defer c.end()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.opError("close", errClosed)
	}
	if m, send := c.life.CloseRead(); send {
		c.control(m)
	}
	c.noRead = true
	c.drop()
	c.update()
	c.r.deadline.end()
	return nil
}
