package adapter

import (
	"slices"
	"time"

	"softrdma/internal/adapter/schedule"
	"softrdma/internal/machine"
	"softrdma/internal/qp"
)

// A share is a machine.Share with the queue pairs that wait for room in it.
type share struct {
	machine.Share
	peer  qp.Endpoint
	users int
	line  schedule.FIFO[*QP] // queue pairs that wait

	// While queue pairs wait, the watcher is due in the lane's heap at stallAt or
	// earlier. stallAt is stallTime after the last progress.
	watcher *QP
	stallAt time.Duration
}

// stallTime is how long the bytes in flight may stay the same before they count as
// lost. A peer's socket does not hold them for so long, and queue pairs whose peer does
// not answer must not block the others.
const stallTime = 30 * time.Millisecond

func (s *share) wait(q *QP) {
	if q.waiting {
		return
	}
	q.waiting = true
	s.line.Push(q)
}

// admit lets the queue pair that has waited longest try again. The next one follows
// when this one had its turn and found room.
func (s *share) admit(l *lane) {
	if s.line.Len() == 0 {
		return
	}
	q := s.line.Pop()
	q.waiting, q.admitted = false, true
	l.tasks.Push(&q.entry)
}

func (s *share) remove(q *QP) {
	if q.waiting {
		s.line.Remove(slices.Index(s.line.Waiting(), q))
		q.waiting = false
	}
}

// joinShare puts q under the limit of what may be in flight to a peer.
func (l *lane) joinShare(q *QP, peer qp.Endpoint) {
	if !q.transport.Acknowledged {
		return
	}
	s := l.shares[peer]
	if s == nil {
		// Three quarters of what a socket like this one holds: others send to the
		// peer as well.
		limit := max(l.caps.ReceiveBuffer*3/4/len(l.dev.lanes), l.dev.cfg.Window)
		s = &share{Share: machine.Share{Limit: int64(limit)}, peer: peer}
		l.shares[peer] = s
	}
	s.users++
	q.share, q.Share = s, &s.Share
}

// leaveShare ends joinShare.
func (l *lane) leaveShare(q *QP) {
	s := q.share
	if s == nil {
		return
	}
	s.remove(q)
	s.Count(&q.Port, 0)
	q.share, q.Share, q.Waits = nil, nil, false
	if s.watcher == q {
		l.watch(s)
	}
	if s.users--; s.users == 0 {
		delete(l.shares, s.peer)
	}
	s.admit(l)
}

// countFlight notes what q has in flight after its machine was called, and lets the
// next waiting queue pair try if there may be room.
func (l *lane) countFlight(q *QP) {
	s := q.share
	if s == nil {
		return
	}
	less := s.Count(&q.Port, q.flight.InFlight())
	if less && s.watcher != nil {
		s.stallAt = l.dev.clock() + stallTime
	}
	switch {
	case q.Waits:
		q.Waits = false
		s.wait(q)
		if s.watcher == nil {
			s.stallAt = l.dev.clock() + stallTime
			l.watch(s)
		}
	case less || q.admitted:
		s.admit(l)
	}
	q.admitted = false
}

// watch makes the first waiting queue pair the watcher for stalls.
func (l *lane) watch(s *share) {
	s.watcher = nil
	if s.line.Len() > 0 {
		s.watcher = s.line.Waiting()[0]
		l.tasks.Lower(&s.watcher.entry, s.stallAt)
	}
}

// deadline is the earliest of the machine's deadline, that of the share which q watches,
// and the next look for receives.
func (q *QP) deadline() time.Duration {
	d := q.m.Deadline()
	if s := q.share; s != nil && s.watcher == q {
		d = min(d, s.stallAt)
	}
	if q.look != nil {
		d = min(d, q.look.at)
	}
	return d
}

// expireShare acts on a stall of the share that q watches.
func (l *lane) expireShare(now time.Duration, q *QP) {
	s := q.share
	if s == nil || s.watcher != q {
		return
	}
	if s.stallAt <= now {
		s.Forget()
		s.stallAt = now + stallTime
		s.admit(l)
	}
	l.watch(s)
}
