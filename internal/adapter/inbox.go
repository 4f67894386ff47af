package adapter

import (
	"softrdma/internal/adapter/drive"
	"softrdma/internal/adapter/gather"
	"softrdma/internal/adapter/handover"
	"softrdma/internal/object"
)

// A remainder is what was left for a lane while another goroutine held it. The driver's
// doorbell (drive.Doorbell) guards bells and inbox.
type remainder struct {
	bells []*QP          // that have something to send
	inbox handover.Queue // packets that came to other lanes
	taken handover.Queue // out of inbox; the lane's
}

// gathers reports whether a request that was posted to q may wait for further ones, so
// that short messages leave as one batch. The next poll sends it, or the worker if nobody
// polls, which must be awake.
func (l *lane) gathers(q *QP) bool {
	if l.gather.Full() || q.deferral.Stands() || l.Sleeping() || !l.amongOthers(q) && !l.inStream(q) {
		return false
	}
	left, first := l.gather.Wait()
	if first {
		l.Defer()
	}
	q.deferral.Make(left)
	return true
}

// amongOthers reports whether other queue pairs have much in flight to q's peer.
func (l *lane) amongOthers(q *QP) bool {
	return q.sharing.Others() >= gather.Beyond && q.route().Path() != object.PathSameHost
}

// inStream reports whether short messages are posted one after the other, by a program
// that polls.
func (l *lane) inStream(q *QP) bool {
	return l.gather.InStream() && q.Posted() <= gather.Short && l.State() != drive.Stopped && l.Polled(gather.Polled)
}

// ring is the doorbell: work was posted to q's send queue, or q's state wants
// it to send.
func (l *lane) ring(q *QP) {
	if l.TryLock() {
		if l.tasks.Push(&q.entry); !l.gathers(q) {
			l.Transmit(l.dev.clock())
		}
		l.Unlock()
		return
	}
	if !q.rung.Swap(true) {
		l.Bell.Lock()
		l.left.bells = append(l.left.bells, q)
		l.Bell.Ring()
		l.Bell.Unlock()
	}
	l.ServeDoorbell()
}

// takeBells makes the queue pairs ready whose doorbells were left. The caller has the doorbell.
func (l *lane) takeBells() {
	h := &l.left
	for i, q := range h.bells {
		q.rung.Store(false)
		l.tasks.Push(&q.entry)
		h.bells[i] = nil
	}
	h.bells = h.bells[:0]
}
