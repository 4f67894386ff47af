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
func (e *endpoint) progress() {
	for {
		n, err := e.cq.Poll(e.wcs[:])
		for i := range e.wcs[:n] {
			e.complete(&e.wcs[i])
		}
		if err != nil {
			e.fail(err)
		}
		if n < len(e.wcs) {
			break
		}
	}
	for e.recvs > 0 && !e.life.Gone() {
		n := min(e.recvs, len(e.empty)-e.repost)
		if err := e.qp.PostRecv(e.empty[e.repost:][:n]...); err != nil {
			e.fail(err)
		}
		e.recvs -= n
		e.repost = (e.repost + n) % len(e.empty)
	}
	e.update()
	for _, s := range [...]*side{&e.r, &e.w, &e.x} {
		if s.waiting && e.ready(s) {
			s.signal()
		}
	}
}

func (e *endpoint) complete(wc *verbs.WC) {
	if wc.WRID&0xff == workDisconnect {
		e.life.End() // even if it has not arrived
	}
	if wc.Status != verbs.Success {
		e.handleFailure(wc)
	}
	switch wc.WRID & 0xff {
	case workRecv:
		if wc.Status == verbs.Success {
			e.recvs++
			if err := e.receive(wc); err != nil {
				e.fail(err)
			}
		}
	case workData:
		e.posted--
		e.sentSpan(wc.WRID)
	case workInline:
		e.posted--
	case workControl:
		e.controls--
		if wc.WRID&timedFlag != 0 {
			e.arriving.End(e.clock(), e.rx.Total())
		}
	case workProof:
		e.lasts--
		e.unproven = e.unproven && wc.Status != verbs.Success
	case workDisconnect, workLast:
		e.lasts--
	}
}

// receive handles a message of the peer.
func (e *endpoint) receive(wc *verbs.WC) error {
	m, written, err := e.messageOf(wc)
	if err != nil {
		return err
	}
	switch m.Op() {
	case rsocket.OpData:
		if err := e.rx.Arrived(m.Data()); err != nil {
			return err
		}
		if e.noRead {
			e.drop()
		}
	case rsocket.OpCredits:
		e.tx.Grant(m.Data())
		// Read the table only if the peer has written a whole entry before this
		// message. Otherwise the entry may be incomplete.
		if written == rsocket.SGELen {
			entry := e.target()
			defer clear(entry)
			return e.tx.Tell(rsocket.ParseTarget(entry))
		}
	case rsocket.OpIomap:
		return e.maps.update(e, m.Data(), written)
	case rsocket.OpControl:
		if m.Data() == rsocket.ControlSkip {
			return e.skipped()
		}
		e.life.Control(m.Data())
	default:
		return &rsocket.Fault{Detail: reason.Detail{Reason: reason.SocketMessage, Found: uint64(m.Op())}}
	}
	return nil
}

// drop discards data that arrived after CloseRead.
func (e *endpoint) drop() {
	for e.rx.Unread() > 0 {
		e.rx.Consume(e.rx.Next().Len)
	}
}

// handleFailure handles an unsuccessful completion. After the end of the connection the
// flushed completions are no error, unless some data was not acknowledged.
func (e *endpoint) handleFailure(wc *verbs.WC) {
	if e.err != nil || e.life.Left() || e.life.Gone() && !e.unacknowledged() {
		return
	}
	err := wc.Err()
	errno := syscall.ECONNRESET
	// The READ of timeRead fails with a status of its own when the stream ends.
	read := e.sends && wc.WRID == workControl|timedFlag
	if (wc.Status == verbs.RetryExcErr || wc.Status == verbs.RNRRetryExcErr) && !read && !reset(err) || silent(err) {
		errno = syscall.ETIMEDOUT
	}
	if wc.Status == verbs.WRFlushErr || read && !silent(err) {
		err = e.flushed(err)
	}
	e.fail(fmt.Errorf("%w: %w", errno, err))
}

// flushed returns why the queue was flushed. The reason why the connection ended is
// more useful than the request that was flushed first.
func (e *endpoint) flushed(err error) error {
	why := e.link.Err()
	if why == nil {
		return err
	}
	if x := (*verbs.CompletionError)(nil); errors.As(err, &x) && x.Cause() != "" {
		return fmt.Errorf("%w (%s)", why, x.Cause())
	}
	return why
}

// silent reports whether the peer's device has stopped answering.
func silent(err error) bool {
	return causedBy(err, reason.PeerSilent) || causedBy(err, reason.StreamTimeout)
}

// reset reports whether the peer's end of an iWARP connection is gone.
func reset(err error) bool { return causedBy(err, reason.StreamLost) }

func causedBy(err error, why reason.Reason) bool {
	e := (*verbs.CompletionError)(nil)
	return errors.As(err, &e) && e.Cause() == why.String()
}

// fail ends the connection with an error.
func (e *endpoint) fail(err error) {
	if e.err == nil {
		e.err = err
		if !e.closed {
			_ = e.link.Disconnect() // notifies the peer; err is the error to report, not this one
		}
	}
	e.lost = e.lost || e.unacknowledged() && !e.life.Left()
	e.life.End()
	e.r.deadline.end()
	e.w.deadline.end()
	e.wakeWaiting()
}

// update sends the peer the credit and the half of the buffer that have become
// free.
func (e *endpoint) update() {
	for e.rx.Due() && !e.life.Gone() && !e.closed {
		if e.controls == controlSlots {
			e.scheduleUpdate()
			return
		}
		e.resizeSpare()
		u := e.rx.Update()
		w := &e.wr[0]
		*w = verbs.SendWR{WRID: workControl}
		if u.Len > 0 {
			w.RemoteAddr, w.RKey = e.peer.PutTarget(e.small[:], e.store.target(u.Piece))
			w.Inline = e.small[:rsocket.SGELen]
		}
		timed := u.Len > 0 && e.timesGrant()
		if timed && !e.sends {
			w.WRID |= timedFlag
		}
		if e.postMessage(u.Message) {
			e.controls++
		}
		if timed && e.sends {
			e.timeRead()
		}
	}
}

// scheduleUpdate makes a timer send the update, in case the program makes no call.
func (e *endpoint) scheduleUpdate() {
	if e.retry == nil {
		e.retry = time.AfterFunc(retryInterval, e.retryUpdate)
		return
	}
	e.retry.Reset(retryInterval)
}

func (e *endpoint) retryUpdate() {
	if !e.begin() {
		return
	}
	defer e.end()
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		e.progress()
	}
}

// control sends a control message, which closes one or both directions.
func (e *endpoint) control(m rsocket.Message) {
	if e.err != nil {
		return
	}
	id := uint64(workLast)
	if m.Data() == rsocket.ControlDisconnect {
		id = workDisconnect
	}
	w := verbs.SendWR{WRID: id}
	if e.prove() {
		w.Flags = verbs.Fence
	}
	e.wr[0] = w
	if e.err == nil && e.postMessage(m) {
		e.lasts++
	}
}

// send posts the first n requests in wr and reports whether that succeeded.
func (e *endpoint) send(n int) bool {
	err := e.qp.PostSend(e.wr[:n]...)
	if err != nil {
		e.fail(err)
	}
	return err == nil
}
