package adapter

import (
	"time"

	"softrdma/internal/adapter/schedule"
	"softrdma/internal/adapter/stream"
)

// A qpTask is a queue pair as its lane schedules it.
type qpTask QP

var _ schedule.Task = (*qpTask)(nil)

// Next sends up to maxBurst packets of the queue pair's machine.
func (t *qpTask) Next(now time.Duration) (packets int, more bool) {
	q := (*QP)(t)
	l := q.lane
	packets, more = l.burst(now, q)
	if l.streams != nil { // its stream sent for it
		packets = stream.Packets
	}
	l.countFlight(q)
	if q.sender != nil {
		l.sent = append(l.sent, q) // its deadline follows Sent
	} else {
		l.tasks.Lower(&q.entry, q.m.Deadline())
	}
	return packets, more
}

// Deadline implements schedule.Task.
func (t *qpTask) Deadline() time.Duration { return (*QP)(t).deadline() }

// Expire handles the deadlines that QP.deadline combines.
func (t *qpTask) Expire(now time.Duration) {
	q := (*QP)(t)
	l := q.lane
	if q.m.Deadline() <= now {
		l.lookForReports(now, q)
		q.m.Expire(now)
		l.countFlight(q)
		l.tasks.Push(&q.entry)
	}
	l.expireShare(now, q)
	q.lookForReceives(now)
}
