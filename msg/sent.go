package msg

import "softrdma/verbs"

// send sends the frame of n bytes in a slot with the next Worker.flush. So frames that leave for one
// reason leave together: those that waited for credits, or credits and the answers of handlers.
func (c *connection) send(i, n int) {
	if len(c.unposted) == 0 {
		c.w.dirty = append(c.w.dirty, c)
	}
	c.pipeline.Sent()
	r := verbs.SendWR{WRID: c.id(workSend, i), Op: verbs.OpSend, Flags: c.sent.Add(i, c.closing)}
	if n <= shortAccess {
		r.Inline = c.out.Bytes(i)[:n]
	} else {
		c.frames[i] = c.out.SGE(i, n)
		r.SGL = c.frames[i : i+1]
	}
	c.unposted = append(c.unposted, r)
}

// postFrames posts the frames that wait for Worker.flush.
func (c *connection) postFrames() {
	list := c.unposted
	if len(list) == 0 {
		return
	}
	c.unposted = list[:0]
	if c.broken == nil && c.err == nil {
		c.broken = c.qp.PostSend(list...)
	}
}

// postBehind posts a work request behind the frames that wait. The completion of a WRITE says that the
// bytes are in the peer's memory if there are several rails. Over iWARP it would say that TCP has taken
// them, so a READ of no bytes follows.
func (c *connection) postBehind(r *verbs.SendWR) error {
	if c.postFrames(); c.broken != nil {
		return c.broken
	}
	if r.Op != verbs.OpWrite || c.group == nil || c.rail.dev.Protocol() != verbs.IWARP {
		return c.qp.PostSend(*r)
	}
	r.Flags &^= verbs.Signaled
	return c.qp.PostSend(*r, verbs.SendWR{WRID: r.WRID, Op: verbs.OpRead, Flags: verbs.Signaled})
}
