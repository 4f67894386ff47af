package adapter

import (
	"time"

	"softrdma/internal/memory"
	"softrdma/internal/reason"
)

// addUnpinned adds l.out to what is sent. A machine gathers only memory that is mapped.
// If the program unmaps it before it is copied, the queue pair fails.
func (l *lane) addUnpinned(now time.Duration, q *QP, f *txFlow) int {
	n, ok := l.tryAdd(q, f)
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

func (l *lane) tryAdd(q *QP, f *txFlow) (n int, ok bool) {
	n, ok = 1, true
	defer func() {
		if !ok {
			l.tx.Truncate()
			clear(l.part.Pieces)
		}
	}()
	defer memory.Caught(memory.Guard(), &ok)
	return l.tx.add(q, f, &l.out), ok
}
