package carrier

import "fmt"

// work is a frame or a move that waits for room or for credits. Work begins in order.
type work struct {
	frame []byte   // to be copied to a slot of the connection, or
	slot  int      // of the owner's, with
	n     int      // bytes, or
	move  Move     // unless By is nil
	enter Shortcut // carries the frames behind this one
	begun bool     // a move that has overtaken frames
}

// add begins work, or keeps it until it can begin.
func (c *Conn) add(x work) {
	if !c.open() || len(c.backlog) > 0 || !c.begin(&x, nil) {
		c.backlog = append(c.backlog, x)
		c.added++
	}
	c.Mark()
}

// begin posts work, and reports whether that was possible. Frames that wait behind it may join it.
func (c *Conn) begin(x *work, behind []work) bool {
	c.joined = 0
	switch {
	case x.begun:
	case x.move.By != nil && c.Movable(MaxMoves):
		c.postMove(&x.move)
	case x.move.By != nil:
		return false
	case x.frame != nil && c.shortcut != nil && x.enter == nil:
		return beginShortcut(c, x.frame)
	case c.credits != nil && !c.credits.Ready(), x.frame != nil && !vacantSlot(c), x.frame == nil && framesWait(c):
		return false
	case len(x.frame) > c.slots.out.size:
		c.Break(fmt.Errorf("%w: %d bytes in %d", ErrTooLong, len(x.frame), c.slots.out.size))
		return false
	case x.frame != nil:
		i := c.slots.take()
		c.stamp(i, join(c, c.slots.bytes(i), x.frame, behind))
	default:
		c.stamp(x.slot, x.n)
	}
	if x.enter != nil {
		c.shortcut = x.enter
	}
	return true
}

// overtake begins moves that wait behind frames for which there is no room. A frame is not sent before the
// moves that it follows, so that it can say that they were begun.
func overtake(c *Conn) {
	for i := range c.backlog {
		x := &c.backlog[i]
		if x.move.By == nil || x.begun {
			continue
		}
		if !c.open() || !c.Movable(MaxMoves) {
			return
		}
		c.postMove(&x.move)
		*x = work{begun: true}
	}
}

// join writes a frame to a slot, and frames that wait behind it, if they may follow. It returns the
// bytes.
func join(c *Conn, slot, frame []byte, behind []work) int {
	n := copy(slot, frame)
	if c.cfg.Joins == nil {
		return n
	}
	for i := range behind {
		next := &behind[i]
		if next.begun {
			c.joined++
			continue
		}
		if next.frame == nil || next.enter != nil || n+len(next.frame) > c.slots.out.size || !c.cfg.Joins(frame, next.frame) {
			break
		}
		frame = next.frame
		n += copy(slot[n:], frame)
		c.joined++
	}
	return n
}

// vacantSlot reports whether there is a slot of the connection for another frame.
func vacantSlot(c *Conn) bool { return len(c.slots.vacant) > 0 && !framesWait(c) }

// framesWait reports whether as many frames are in flight as there may be beside many moves.
func framesWait(c *Conn) bool { return c.moves.n > MaxMoves && c.slots.sent.n >= fewFrames }

// beginShortcut sends a frame that has waited beside the queue pair.
func beginShortcut(c *Conn, frame []byte) bool {
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
	case n > c.slots.out.size, !vacantSlot(c), c.credits != nil && !c.credits.Ready():
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
	if !c.open() || !vacantSlot(c) || c.credits != nil && !c.credits.Ready() {
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

// Busy reports whether READs wait, or frames of the connection's slots wait or are in flight.
func (c *Conn) Busy() bool {
	return len(c.backlog)+len(c.reads.waiting) > 0 || len(c.slots.vacant) < c.cfg.Slots
}

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
