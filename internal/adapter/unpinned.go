package adapter

import (
	"time"

	"softrdma/internal/memory"
	"softrdma/internal/reason"
)

// sendUnpinned is send. A machine gathers only memory that is mapped. If the program unmaps it
// before it is copied, the queue pair fails.
func (l *packetLane) sendUnpinned(now time.Duration, q *QP, r route, limit int) int {
	n, ok := l.trySend(now, q, r, limit)
	if !ok {
		d := reason.Detail{Reason: reason.MemoryUnmapped, Expected: uint64(l.out.Len)}
		if len(l.out.Pieces) > 0 {
			d.Found = memory.Addr(l.out.Pieces[0])
		}
		l.dev.Refuse(&q.Port, d)
		q.fail(now, d)
	}
	return n
}

func (l *packetLane) trySend(now time.Duration, q *QP, r route, limit int) (n int, ok bool) {
	n, ok = 1, true
	defer func() {
		if !ok {
			l.network.Truncate()
			clear(l.part.Pieces)
		}
	}()
	defer memory.Caught(memory.Guard(), &ok)
	return l.send(now, q, r, limit), ok
}
