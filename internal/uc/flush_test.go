package uc

import (
	"testing"

	"softrdma/internal/congestion"
	"softrdma/internal/machine/machinetest"
	"softrdma/internal/qp"
)

// A program that continuously posts receives does not occupy the lane.
func TestResetEndsWhileReceivesArePosted(t *testing.T) {
	rq := &machinetest.Runaway{N: 20}
	p := machinetest.New(qp.UC, 0x100, 16)
	p.RQ = rq
	q := New(&p.Port, congestion.None)
	p.Move(q, qp.Init, qp.Reset)
	if rq.Taken != 20 {
		t.Errorf("took %d, expected 20", rq.Taken)
	}
}
