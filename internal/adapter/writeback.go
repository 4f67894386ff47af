package adapter

import "softrdma/internal/queue"

// Payloads for the memory of other processes are stored there for several packets at a
// time (memory.Table.Flush), before the program can know that the packets came.

// stored notes that what q received may wait.
func (l *lane) stored(q *QP) {
	if n := len(l.storing); n == 0 || l.storing[n-1] != q {
		l.storing = append(l.storing, q)
	}
}

// writeBack makes the stores that wait. A queue pair whose program has unmapped the
// memory fails, so that its peer does not take it for written.
func (l *lane) writeBack() {
	if l.dev.Memory.Deferred() {
		l.losses = append(l.losses, l.dev.Memory.Flush()...)
	}
	if len(l.losses) > 0 {
		l.lose()
	}
	if len(l.storing) > 0 {
		clear(l.storing)
		l.storing = l.storing[:0]
	}
}

func (l *lane) lose() {
	losses, storing := l.losses, l.storing
	l.losses, l.storing = nil, nil
	for _, x := range losses {
		for _, q := range storing {
			if q.PD == x.PD {
				l.dev.Refuse(&q.Port, x.Detail)
				q.fail(l.dev.clock(), x.Detail)
			}
		}
	}
}

// stored makes the stores that wait before a completion reports them. If they fail, so
// does the completion. Windows that the completion says are invalid are so for peers, too.
func (q *QP) stored(e *queue.CQE) {
	l := q.lane
	l.carrier.endBindings()
	if !l.dev.Memory.Deferred() {
		return
	}
	l.stored(q)
	losses := l.dev.Memory.Flush()
	for _, x := range losses {
		if x.PD == q.PD && e.Status == queue.Success {
			e.Status, e.Reason, e.Expected, e.Found = queue.LocProtErr, x.Reason, x.Expected, x.Found
		}
	}
	l.losses = append(l.losses, losses...)
}
