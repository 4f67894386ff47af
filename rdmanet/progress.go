package rdmanet

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"softrdma/internal/reason"
	"softrdma/rdmanet/internal/rsocket"
	"softrdma/verbs"
)

// The lowest byte of a WRID is the kind of the work request.
const (
	workRecv       = iota
	workData       // data from the send buffer; the upper bytes are the span's id
	workInline     // inline data
	workWrite      // the WRITE before a message that is a SEND
	workControl    // a message that uses controlSlots
	workLast       // a message that uses lastSlots
	workProof      // the READ before it; see proof.go
	workDisconnect // the last message: the connection is over after it
)

// progress handles completions, posts what they make possible, and wakes the
// waiting sides that can continue. The caller holds mu.
func (c *Conn) progress() {
	for {
		n, err := c.cq.Poll(c.wcs[:])
		for i := range c.wcs[:n] {
			c.complete(&c.wcs[i])
		}
		if err != nil {
			c.fail(err)
		}
		if n < len(c.wcs) {
			break
		}
	}
	for c.recvs > 0 && !c.life.Gone() {
		n := min(c.recvs, len(c.empty)-c.repost)
		if err := c.qp.PostRecv(c.empty[c.repost:][:n]...); err != nil {
			c.fail(err)
		}
		c.recvs -= n
		c.repost = (c.repost + n) % len(c.empty)
	}
	c.update()
	for _, s := range [...]*side{&c.r, &c.w, &c.x} {
		if s.waiting && c.ready(s) {
			s.signal()
		}
	}
}

func (c *Conn) complete(wc *verbs.WC) {
	if wc.WRID&0xff == workDisconnect {
		c.life.End() // even if it has not arrived
	}
	if wc.Status != verbs.Success {
		c.handleFailure(wc)
	}
	switch wc.WRID & 0xff {
	case workRecv:
		if wc.Status == verbs.Success {
			c.recvs++
			if err := c.receive(wc); err != nil {
				c.fail(err)
			}
		}
	case workData:
		c.posted--
		c.out.Done(uint32(wc.WRID >> 8))
	case workInline:
		c.posted--
	case workControl:
		c.controls--
	case workProof:
		c.lasts--
		c.unproven = c.unproven && wc.Status != verbs.Success
	case workDisconnect, workLast:
		c.lasts--
	}
}

// receive handles a message of the peer.
func (c *Conn) receive(wc *verbs.WC) error {
	m, written, err := c.messageOf(wc)
	if err != nil {
		return err
	}
	switch m.Op() {
	case rsocket.OpData:
		if err := c.rx.Arrived(m.Data()); err != nil {
			return err
		}
		if c.noRead {
			c.drop()
		}
	case rsocket.OpCredits:
		c.tx.Grant(m.Data())
		// Read the table only if the peer has written a whole entry before this
		// message. Otherwise the entry may be incomplete.
		if written == rsocket.SGELen {
			entry := c.target()
			defer clear(entry)
			return c.tx.Tell(rsocket.ParseTarget(entry))
		}
	case rsocket.OpIomap:
		return c.maps.update(c, m.Data(), written)
	case rsocket.OpControl:
		c.life.Control(m.Data())
	default:
		return &rsocket.Fault{Detail: reason.Detail{Reason: reason.SocketMessage, Found: uint64(m.Op())}}
	}
	return nil
}

// drop discards data that arrived after CloseRead.
func (c *Conn) drop() {
	for c.rx.Unread() > 0 {
		_, n := c.rx.Next()
		c.rx.Consume(n)
	}
}

// handleFailure handles an unsuccessful completion. After the end of the connection the
// flushed completions are no error, unless some data was not acknowledged.
func (c *Conn) handleFailure(wc *verbs.WC) {
	if c.err != nil || c.life.Left() || c.life.Gone() && !c.unacknowledged() {
		return
	}
	err := wc.Err()
	errno := syscall.ECONNRESET
	if wc.Status == verbs.RetryExcErr || wc.Status == verbs.RNRRetryExcErr || silent(err) {
		errno = syscall.ETIMEDOUT
	}
	if wc.Status == verbs.WRFlushErr {
		err = c.flushed(err)
	}
	c.fail(fmt.Errorf("%w: %w", errno, err))
}

// flushed returns why the queue was flushed. The reason why the connection ended is
// more useful than the request that was flushed first.
func (c *Conn) flushed(err error) error {
	why := c.link.Err()
	if why == nil {
		return err
	}
	if e := (*verbs.CompletionError)(nil); errors.As(err, &e) && e.Cause() != "" {
		return fmt.Errorf("%w (%s)", why, e.Cause())
	}
	return why
}

// silent reports whether the peer's device has stopped answering.
func silent(err error) bool {
	e := (*verbs.CompletionError)(nil)
	return errors.As(err, &e) && e.Cause() == reason.PeerSilent.String()
}

// fail ends the connection with an error.
func (c *Conn) fail(err error) {
	if c.err == nil {
		c.err = err
		if !c.closed {
			_ = c.link.Disconnect() // notifies the peer; err is the error to report, not this one
		}
	}
	c.lost = c.lost || c.unacknowledged() && !c.life.Left()
	c.life.End()
	c.r.deadline.end()
	c.w.deadline.end()
	c.wakeWaiting()
}

// update sends the peer the credit and the half of the buffer that have become
// free.
func (c *Conn) update() {
	for c.rx.Due() && !c.life.Gone() && !c.closed {
		if c.controls == controlSlots {
			c.scheduleUpdate()
			return
		}
		u := c.rx.Update()
		w := &c.wr[0]
		*w = verbs.SendWR{WRID: workControl}
		if u.Length > 0 {
			w.RemoteAddr, w.RKey = c.peer.PutTarget(c.small[:], rsocket.SGE{
				Addr: c.store.recvMR.Addr() + uint64(u.Off), Key: c.store.recvMR.RKey(), Length: uint32(u.Length),
			})
			w.Inline = c.small[:rsocket.SGELen]
		}
		if c.postMessage(u.Message) {
			c.controls++
		}
	}
}

// scheduleUpdate makes a timer send the update, in case the program makes no call.
func (c *Conn) scheduleUpdate() {
	if c.retry == nil {
		c.retry = time.AfterFunc(retryInterval, c.retryUpdate)
		return
	}
	c.retry.Reset(retryInterval)
}

func (c *Conn) retryUpdate() {
	if !c.begin() {
		return
	}
	defer c.end()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.progress()
	}
}

// control sends a control message, which closes one or both directions.
func (c *Conn) control(m rsocket.Message) {
	if c.err != nil {
		return
	}
	id := uint64(workLast)
	if m.Data() == rsocket.ControlDisconnect {
		id = workDisconnect
	}
	w := verbs.SendWR{WRID: id}
	if c.prove() {
		w.Flags = verbs.Fence
	}
	c.wr[0] = w
	if c.err == nil && c.postMessage(m) {
		c.lasts++
	}
}

// send posts the first n requests in wr and reports whether that succeeded.
func (c *Conn) send(n int) bool {
	err := c.qp.PostSend(c.wr[:n]...)
	if err != nil {
		c.fail(err)
	}
	return err == nil
}
