package rpc

// fail ends the connection. Its owner hears of it when the queue pair is destroyed.
func (c *conn) fail(err error) {
	if c.err != nil {
		return
	}
	c.err = err
	if c.started { // otherwise start ends it, or who makes it discards it
		c.e.ending.Add(1)
		go c.end()
	}
}

// end gives back everything that the connection owns, and tells the owner.
func (c *conn) end() {
	defer c.e.ending.Done()
	if c.cm != nil {
		_ = c.cm.Close() // the peer may have closed it
	}
	_ = c.qp.Destroy() // afterwards the device uses no memory of the connection
	e := c.e
	e.mu.Lock()
	defer e.mu.Unlock()
	e.progress() // takes what is left
	delete(e.conns, c.number)
	c.rail.room -= c.room
	c.gone = true
	c.note.free()
	if c.held == 0 {
		c.in.free()
	}
	for i, slot := range c.reads {
		if slot >= 0 {
			c.reads[i] = -1
			c.owner.fetched(c, slot, c.err)
		}
	}
	for _, f := range c.wants {
		c.owner.fetched(c, f.slot, c.err)
	}
	c.wants = nil
	for slot, p := range c.posted {
		if p {
			c.posted[slot] = false
			c.owner.sent(c, slot)
		}
	}
	c.owner.broken(c)
	e.flush()
}

// discard gives back what there is of a connection that was never started.
func (c *conn) discard() {
	if c.qp != nil {
		_ = c.qp.Destroy()
	}
	e := c.e
	e.mu.Lock()
	e.progress()
	delete(e.conns, c.number)
	c.rail.room -= c.room
	e.mu.Unlock()
	c.in.free()
	c.note.free()
}
