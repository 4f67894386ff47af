package rc

import (
	"testing"

	"softrdma/internal/machine/machinetest"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
)

// A program that continuously posts receives to a queue pair in the error state must not occupy the
// lane forever.
func TestFlushEndsWhileReceivesArePosted(t *testing.T) {
	rq := &machinetest.Runaway{N: 20}
	p := machinetest.New(qp.RC, 0x100, 16)
	p.RQ = rq
	q := New(&p.Port, Config{})
	p.Move(q, qp.Init, qp.Err)
	if n := len(p.Received.List); n != 20 || p.Received.List[19].Status != queue.WRFlushErr {
		t.Errorf("%d completions, expected 20 flushed ones", n)
	}
	p.Move(q, qp.Reset)
	if rq.Taken != 40 {
		t.Errorf("took %d, expected 20 more", rq.Taken-20)
	}
}
