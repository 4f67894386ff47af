package uc

import (
	"slices"
	"testing"

	"softrdma/internal/machine"
	"softrdma/internal/machine/machinetest"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
)

func TestDrainFinishesMessageBegun(t *testing.T) {
	a, _ := pair(t)
	a.Attr.EnSQDNotify = true
	for i := range 2 {
		a.PostSend(op(queue.Send, uint64(i)), machinetest.SGE(a.src, 0, 600))
	}
	machinetest.Drain(a.m, 1)
	a.Move(a.m, qp.SQD)
	if !a.Attr.SQDraining || len(a.Events) != 0 {
		t.Errorf("draining %v, events %v before the message was finished", a.Attr.SQDraining, a.Events)
	}
	if n := len(machinetest.Drain(a.m, 0)); n != 2 {
		t.Errorf("%d packets, want the other 2 of the message begun", n)
	}
	a.m.Sent()
	wantResults(t, &a.Sent, result{0, queue.Success})
	if a.Attr.SQDraining || !slices.Equal(a.Events, []machine.Event{machine.EventSQDrained}) || !slices.Equal(a.States, []string{"SQD>SQD"}) {
		t.Errorf("draining %v, events %v, states %v", a.Attr.SQDraining, a.Events, a.States)
	}
	if n := len(machinetest.Drain(a.m, 0)); n != 0 {
		t.Errorf("%d packets in SQD", n)
	}
	a.Move(a.m, qp.RTS)
	if p := machinetest.Drain(a.m, 0); len(p) != 3 || header(p[0]).PSN != a.firstPSN.Add(3) {
		t.Errorf("found %d packets", len(p))
	}
}

func TestDrainOfIdleQueueIsImmediate(t *testing.T) {
	for _, notify := range []bool{false, true} {
		a, _ := pair(t)
		a.Attr.EnSQDNotify = notify
		a.Move(a.m, qp.SQD)
		if a.Attr.SQDraining || len(a.Events) == 1 != notify {
			t.Errorf("notify %v: draining %v, events %v", notify, a.Attr.SQDraining, a.Events)
		}
	}
}
