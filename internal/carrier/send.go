package carrier

import "fmt"

// work is a frame or a move that waits for room or for credits. Work begins in order.
type work struct {
	frame []byte   // to be copied to a slot of the connection, or
	slot  int      // of the owner's, with
	n     int      // bytes, or
	move  Move     // unless By is nil
	enter Shortcut // carries the frames behind this one
}

// add begins work, or keeps it until it can begin.
func (c *Conn) add(x work) {
	if !c.open() || len(c.backlog) > 0 || !c.begin(&x) {
		c.backlog = append(c.backlog, x)
		c.added++
	}
	c.Mark()
}

// begin posts work, and reports whether that was possible.
func (c *Conn) begin(x *work) bool {
	switch {
	case x.move.By != nil && c.moving < MaxMoves:
		c.postMove(&x.move)
	case x.move.By != nil:
		return false
	case x.frame != nil && c.shortcut != nil && x.enter == nil:
		return c.beginShortcut(x.frame)
	case c.credits != nil && !c.credits.Ready(), x.frame != nil && len(c.slots.vacant) == 0:
		return false
	case len(x.frame) > c.slots.out.size:
		c.Break(fmt.Errorf("%w: %d bytes in %d", ErrTooLong, len(x.frame), c.slots.out.size))
		return false
	case x.frame != nil:
		i := c.slots.take()
		c.stamp(i, copy(c.slots.bytes(i), x.frame))
	default:
		c.stamp(x.slot, x.n)
	}
	if x.enter != nil {
		c.shortcut = x.enter
	}
	return true
}

// beginShortcut sends a frame that has waited beside the queue pair.
func (c *Conn) beginShortcut(frame []byte) bool {
	b := c.shortcut.Reserve(len(frame))
	for ; b == nil; b = c.shortcut.Reserve(len(frame)) {
		if !c.shortcut.Await() {
			return false
		}
	}
	c.shortcut.Commit(copy(b, frame))
	return true
}

// Send sends the frame of n bytes in a slot of the owner's. No frame of the slot is in flight on the
// connection.
func (c *Conn) Send(slot, n int) { c.add(work{slot: slot, n: n}) }

// Add sends a frame, which it keeps until there is room.
func (c *Conn) Add(frame []byte) { c.add(work{frame: frame}) }

// Enter sends a frame on the queue pair, and those that follow on a shortcut.
func (c *Conn) Enter(frame []byte, s Shortcut) { c.add(work{frame: frame, enter: s}) }

// Reserve returns memory for a frame of at most n bytes that can be sent at once: the caller writes it and
// calls Commit. It returns nil if the frame has to wait.
func (c *Conn) Reserve(n int) []byte {
	switch {
	case !c.open() || len(c.backlog) > 0:
		return nil
	case c.shortcut != nil:
		c.reserved = -1
		return c.shortcut.Reserve(n)
	case n > c.slots.out.size, len(c.slots.vacant) == 0, c.credits != nil && !c.credits.Ready():
		return nil
	}
	c.reserved = c.slots.take()
	return c.slots.bytes(c.reserved)
}

// Commit sends the frame of n bytes that was written to the memory of Reserve.
func (c *Conn) Commit(n int) {
	if c.reserved < 0 {
		c.shortcut.Commit(n)
		return
	}
	c.stamp(c.reserved, n)
}

// Raw sends a frame as it is, before all that wait. It reports whether that was possible.
func (c *Conn) Raw(frame []byte) bool {
	if !c.open() || len(c.slots.vacant) == 0 || c.credits != nil && !c.credits.Ready() {
		return false
	}
	if c.credits != nil {
		c.credits.Stamp(nil)
	}
	i := c.slots.take()
	c.post(i, copy(c.slots.bytes(i), frame))
	return true
}

// stamp posts a frame with credits for the peer.
func (c *Conn) stamp(i, n int) {
	if c.credits != nil {
		c.postCredits()
		c.credits.Stamp(c.slots.bytes(i))
	}
	c.post(i, n)
}

// post posts the frame of n bytes in a slot with the next push. So frames that leave for one reason leave
// together.
func (c *Conn) post(i, n int) {
	r := c.slots.request(i, n)
	r.WRID = c.id(workFrame, i)
	c.unposted = append(c.unposted, r)
	c.Mark()
}

// Flush posts the frames that wait for the next push.
func (c *Conn) Flush() {
	list := c.unposted
	if len(list) == 0 {
		return
	}
	if c.unposted = list[:0]; c.open() {
		c.broken = c.qp.PostSend(list...)
	}
}

// completeFrames takes the completion of a frame, and of those before it.
func (c *Conn) completeFrames(i int) {
	for n := c.slots.sent.through(i); n > 0; n-- {
		c.freeSlot(c.slots.sent.take())
	}
}

// Arrived says that the first total frames are complete.
func (c *Conn) Arrived(total uint64) {
	for c.slots.sent.total-uint64(c.slots.sent.n) < total {
		c.freeSlot(c.slots.sent.take())
	}
}

func (c *Conn) freeSlot(i int) {
	if i < c.slots.first {
		c.owner.Sent(c, i)
		return
	}
	c.slots.vacant = append(c.slots.vacant, i)
}

// Frames returns how many frames were ever posted on the queue pair.
func (c *Conn) Frames() uint64 { return c.slots.sent.total }

// Unposted returns how many of them wait for the next push.
func (c *Conn) Unposted() int { return len(c.unposted) }

// Entered returns how much work ever had to wait, and Left how much of it has begun.
func (c *Conn) Entered() uint64 { return c.added }

// Left is described at Entered.
func (c *Conn) Left() uint64 { return c.added - uint64(len(c.backlog)) }

// Busy reports whether frames of the connection's slots wait or are in flight.
func (c *Conn) Busy() bool { return len(c.backlog) > 0 || len(c.slots.vacant) < c.cfg.Slots }

// SignalAll gives each frame from now on a completion of its own.
func (c *Conn) SignalAll() { c.slots.sent.every = 1 }

// Hold takes the vacant slots until the returned function is called, for tests.
func (c *Conn) Hold() (release func()) {
	held := c.slots.vacant
	c.slots.vacant = nil
	return func() {
		c.slots.vacant = append(c.slots.vacant, held...)
		c.Mark()
	}
}
