package adapter

import (
	"time"

	"softrdma/internal/adapter/schedule"
)

// A qpTask is a queue pair as its lane schedules it.
type qpTask QP

var _ schedule.Task = (*qpTask)(nil)

// Next sends what the queue pair's machine has to send.
func (t *qpTask) Next(now time.Duration) (packets int, more bool) {
	q := (*QP)(t)
	l := q.lane
	q.deferral.End()
	packets, more = l.carrier.turn(now, q)
	l.shares.Count(&q.sharing, q.can.InFlight)
	if q.can.Sender == nil {
		l.tasks.Lower(&q.entry, q.m.Deadline())
	}
	return packets, more
}

// deadline is the earliest of the machine's deadline, that of the share which q watches,
// and the next look for receives.
func (q *QP) deadline() time.Duration {
	d := min(q.m.Deadline(), q.sharing.Deadline())
	if q.look != nil {
		d = min(d, q.look.at)
	}
	return d
}

// Deadline implements schedule.Task.
func (t *qpTask) Deadline() time.Duration { return (*QP)(t).deadline() }

// Expire handles the deadlines that QP.deadline combines.
func (t *qpTask) Expire(now time.Duration) {
	q := (*QP)(t)
	l := q.lane
	if q.m.Deadline() <= now {
		if q.flow != nil {
			q.packets.lookForReports(now, q)
		}
		q.m.Expire(now)
		l.shares.Count(&q.sharing, q.can.InFlight)
		l.tasks.Push(&q.entry)
	}
	l.shares.Expire(now, &q.sharing)
	q.lookForReceives(now)
}
