package carrier

// Fail ends the connection. It tells the owner when the queue pair is destroyed.
func (c *Conn) Fail(err error) {
	if c.Err != nil {
		return
	}
	c.Err = err
	if c.started { // otherwise Start ends it, or its maker discards it
		c.e.Ending.Add(1)
		go c.end()
	}
}

// end releases everything that the connection owns, and tells the owner.
func (c *Conn) end() {
	defer c.e.Ending.Done()
	if c.CM != nil {
		_ = c.CM.Close() // the peer may have closed it
	}
	_ = c.qp.Destroy() // afterwards the device uses no memory of the connection
	e := c.e
	e.mu.Lock()
	defer e.mu.Unlock()
	e.Progress() // takes what is left
	e.unreserve(c)
	c.gone = true
	c.note.Free()
	if c.held == 0 {
		c.in.Free()
	}
	for i, slot := range c.reads {
		if slot >= 0 {
			c.reads[i] = -1
			c.owner.Fetched(c, slot, c.Err)
		}
	}
	for _, f := range c.wants {
		c.owner.Fetched(c, f.Slot, c.Err)
	}
	c.wants = nil
	for slot, p := range c.posted {
		if p {
			c.posted[slot] = false
			c.owner.Sent(c, slot)
		}
	}
	c.owner.Broken(c)
	e.Flush()
}

// Discard releases what a connection has that was never started.
func (c *Conn) Discard() {
	if c.qp != nil {
		_ = c.qp.Destroy()
	}
	e := c.e
	e.mu.Lock()
	e.Progress()
	e.unreserve(c)
	e.mu.Unlock()
	c.in.Free()
	c.note.Free()
}
