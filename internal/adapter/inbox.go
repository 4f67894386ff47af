package adapter

// A handover holds what was left for a lane while another goroutine held it. The driver's
// doorbell (drive.Doorbell) guards bells and inbox.
type handover struct {
	bells []*QP        // that have something to send
	inbox forwardQueue // packets that came to other lanes
	taken forwardQueue // out of inbox; the lane's
}

const (
	// gatherBeyond is how many bytes others must have in flight to a peer for a
	// doorbell to wait for theirs, and gatherAtMost bounds how many wait.
	gatherBeyond = 64 << 10
	gatherAtMost = 32
)

// gathers reports whether a request that was posted to q may wait for requests to other
// queue pairs, so that short messages of many leave as one batch. It may while the others
// have much in flight to the same peer and the worker is awake: the next poll sends it,
// or the worker if nobody polls.
func (l *lane) gathers(q *QP) bool {
	if q.share == nil || q.share.Others(&q.Port) < gatherBeyond || l.gathered == gatherAtMost-1 || l.Sleeping() || q.hostPath() != nil {
		return false
	}
	l.gathered++
	return true
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
		l.handover.bells = append(l.handover.bells, q)
		l.Bell.Ring()
		l.Bell.Unlock()
	}
	l.ServeDoorbell()
}

// Serve implements drive.Port: what was handed over becomes ready, or is received.
func (l *lane) Serve() bool {
	if !l.Bell.Rung() {
		return false
	}
	h := &l.handover
	l.Bell.Lock()
	for i, q := range h.bells {
		q.rung.Store(false)
		l.tasks.Push(&q.entry)
		h.bells[i] = nil
	}
	h.bells = h.bells[:0]
	h.inbox, h.taken = h.taken, h.inbox
	l.Bell.Answer()
	l.Bell.Unlock()
	l.receiveForwarded()
	return true
}
