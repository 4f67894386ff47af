package adapter

import (
	"time"

	"softrdma/internal/memory"
	"softrdma/internal/reason"
)

// addUnpinned is add. A machine gathers only memory that is mapped. If the program unmaps it
// before it is copied, the queue pair fails.
func (l *lane) addUnpinned(now time.Duration, q *QP, f *txFlow, most int) int {
	n, ok := l.tryAdd(now, q, f, most)
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

func (l *lane) tryAdd(now time.Duration, q *QP, f *txFlow, most int) (n int, ok bool) {
	n, ok = 1, true
	defer func() {
		if !ok {
			l.tx.Truncate()
			clear(l.part.Pieces)
		}
	}()
	defer memory.Caught(memory.Guard(), &ok)
	return l.add(now, q, f, most), ok
}
