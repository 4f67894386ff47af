package iwarp

import (
	"testing"

	"softrdma/internal/qp"
	"softrdma/internal/queue"
)

func TestPoolKeepsAnArenaUntilAllIsSent(t *testing.T) {
	p, a, b := connected(t, defaults(), defaults())
	free := len(a.s.pool.free)
	a.post(queue.Write, 0, 50000, b.target(0))
	p.maxPiece, a.limit = 10000, a.sent+10000
	p.run()
	if n := len(a.s.pool.free); n != free-1 || a.s.QP() != a.q {
		t.Errorf("%d arenas free, %d before", n, free)
	}
	a.limit = 0
	p.run()
	if n := len(a.s.pool.free); n != free {
		t.Errorf("%d arenas free, %d before", n, free)
	}
	a.s.pool.Trim(0)
	if len(a.s.pool.free) != 0 {
		t.Error("not trimmed")
	}
	a.post(queue.Write, 0, 50000, b.target(0))
	a.limit = a.sent + 10
	p.run()
	a.move(qp.Err)
	if len(a.s.pool.free) != 1 {
		t.Errorf("%d arenas free after the end", len(a.s.pool.free))
	}
}
