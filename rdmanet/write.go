package rdmanet

import (
	"errors"
	"io"

	"softrdma/rdmanet/internal/rsocket"
	"softrdma/verbs"
)

// Write writes p. It returns when all of p is posted, when the connection has
// ended, or when the deadline has passed. As with TCP, success does not mean that
// the peer has read the data.
func (c *Conn) Write(p []byte) (int, error) {
	c.w.turn.Lock()
	defer c.w.turn.Unlock()
	n, err := c.write(p)
	if err != nil {
		err = c.opError("write", err)
	}
	return n, err
}

func (c *Conn) write(p []byte) (n int, err error) {
	if !c.begin() {
		return 0, errClosed
	}
	defer c.end()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(p) == 0 {
		return 0, c.unwritable()
	}
	for n < len(p) {
		if err := c.awaitRoom(wantRoom); err != nil {
			return n, err
		}
		k := min(len(p)-n, c.tx.Room(), c.out.longest())
		if k <= maxInline {
			err = c.sendInline(p[n : n+k])
		} else {
			k, err = c.sendCopy(p[n : n+k])
		}
		if err != nil {
			return n, err
		}
		n += k
	}
	return n, nil
}

// unwritable returns why nothing can be written.
func (c *Conn) unwritable() error {
	switch {
	case c.closed:
		return errClosed
	case c.err != nil && !c.noWrite:
		return c.err
	case !c.life.Writable():
		return errPipe
	}
	return nil
}

// awaitRoom waits until what w names is available.
func (c *Conn) awaitRoom(w want) error {
	if err := c.unwritable(); err != nil {
		return err
	}
	if c.w.want = w; (w == wantRoom || w == wantMemory) && !c.ready(&c.w) {
		c.growRing()
	}
	if err := c.await(&c.w); err != nil {
		return err
	}
	return c.unwritable()
}

// sendInline sends a few bytes as inline data.
func (e *endpoint) sendInline(p []byte) error {
	w := &e.wr[0]
	*w = verbs.SendWR{WRID: workInline, Inline: p}
	return e.sendData(len(p))
}

// sendCopy copies up to len(p) bytes to the send buffer and sends them as one
// message.
func (c *Conn) sendCopy(p []byte) (n int, err error) {
	off, n, id := c.out.Take(len(p))
	if to := c.out.bytes[off : off+n]; n > smallCopy {
		c.mu.Unlock()
		copy(to, p)
		c.mu.Lock()
	} else {
		copy(to, p)
	}
	if err = c.unwritable(); err == nil {
		err = c.sendSpan(off, n, id)
	}
	c.doneSpan(id)
	return n, err
}

// sendSpan sends a message from the send buffer.
func (e *endpoint) sendSpan(off, n int, id uint32) error {
	r := e.ringOf(id)
	e.sge[0] = r.mr.SGE(off, n)
	e.wr[0] = verbs.SendWR{WRID: workData | uint64(id)<<8, SGL: e.sge[:]}
	if e.timesData() {
		e.wr[0].WRID |= timedData
	}
	if err := e.sendData(n); err != nil {
		return err
	}
	r.Hold(id)
	return nil
}

// ReadFrom writes the data of r until its end. r reads directly into registered
// memory. Write may be called while r blocks. It implements io.ReaderFrom.
func (c *Conn) ReadFrom(r io.Reader) (total int64, err error) {
	for {
		buf, off, id, err := c.reserve()
		if err != nil {
			return total, c.opError("write", err)
		}
		n := len(buf)
		k, end := r.Read(buf)
		if k < 0 || k > n {
			k, end = 0, errors.New("rdmanet: a Reader returned a count that cannot be")
		}
		sent, err := c.fill(off, n, k, id)
		total += int64(sent)
		switch {
		case err != nil:
			return total, c.opError("write", err)
		case end == io.EOF:
			return total, nil
		case end != nil:
			return total, end
		}
	}
}

// reserve waits for room and returns memory to fill. The memory remains valid until
// fill, even if the connection is closed.
func (c *Conn) reserve() (buf []byte, off int, id uint32, err error) {
	c.w.turn.Lock()
	defer c.w.turn.Unlock()
	if !c.begin() {
		return nil, 0, 0, errClosed
	}
	defer c.end()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.awaitRoom(wantRoom); err != nil {
		return nil, 0, 0, err
	}
	off, n, id := c.out.Take(min(c.out.longest(), c.out.Size()/2))
	c.pins++
	return c.out.bytes[off : off+n], off, id, nil
}

// fill ends reserve: it sends the first k of the n bytes.
func (c *Conn) fill(off, n, k int, id uint32) (sent int, err error) {
	c.w.turn.Lock()
	defer c.w.turn.Unlock()
	using := c.begin()
	if using {
		defer c.end()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.unpin()
	if !using {
		return 0, errClosed
	}
	c.ringOf(id).Trim(id, n, k)
	for sent < k && err == nil {
		if err = c.awaitRoom(wantTarget); err != nil {
			break
		}
		m := min(k-sent, c.tx.Room())
		if err = c.sendSpan(off+sent, m, id); err == nil {
			sent += m
		}
	}
	c.doneSpan(id)
	return sent, err
}

// CloseWrite closes this side's direction. The peer reads to the end of the stream
// and may continue to write.
func (c *Conn) CloseWrite() error {
	if !c.begin() {
		return c.opError("close", errClosed)
	}
	defer c.end()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.opError("close", errClosed)
	}
	if m, send := c.life.CloseWrite(); send {
		c.control(m)
	}
	c.noWrite = true
	c.w.deadline.end()
	return nil
}

// sendData sends the n bytes of data that wr describes to the next place in the
// peer's buffer.
func (e *endpoint) sendData(n int) error {
	w := &e.wr[0]
	w.RemoteAddr, w.RKey = e.tx.Take(n)
	if !e.postMessage(rsocket.NewMessage(rsocket.OpData, uint32(n))) {
		return e.err
	}
	e.tookData()
	return nil
}
