package samehost

import (
	"time"

	"softrdma/internal/reason"
)

// A peer on a busy host may not answer before a connection's time limit. It is asked again
// after laterFirst, then at growing intervals up to laterLast.
const (
	laterFirst = time.Second
	laterLast  = time.Minute
	laterLimit = 5 * time.Second // time limit of each attempt
	maxLater   = 64              // peers retried at the same time
)

// askLater retries a peer in the background if it has not answered. Any other failure is an
// answer. The caller holds mu.
func (h *Host) askLater(peer place, why error) {
	if h.cfg.Mode == Require || h.closed || h.later[peer] || len(h.later) >= maxLater || !unanswered(why) {
		return
	}
	h.later[peer] = true
	h.running.Add(1)
	go h.runLater(peer)
}

// unanswered reports whether an attempt failed because the peer did not answer.
func unanswered(err error) bool {
	return err != nil && detailOf(err).Reason == reason.HostTimeout
}

func (h *Host) runLater(peer place) {
	defer h.running.Done()
	for pause := laterFirst; pause <= laterLast && h.askAgain(peer, pause); pause *= 2 {
	}
	h.mu.Lock()
	delete(h.later, peer)
	h.mu.Unlock()
}

// askAgain asks a peer after a pause, and reports whether it still has not answered.
func (h *Host) askAgain(peer place, pause time.Duration) bool {
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-t.C:
	case <-h.ctx.Done():
		return false
	}
	h.mu.Lock()
	if h.closed || h.connected(peer) {
		h.mu.Unlock()
		return false
	}
	a := h.attempts[peer]
	if a != nil { // a connection attempt is running
		h.mu.Unlock()
		return unanswered(a.wait(laterLimit))
	}
	a = h.begun(peer)
	h.mu.Unlock()
	h.try(a, peer, laterLimit)
	return unanswered(a.err)
}
