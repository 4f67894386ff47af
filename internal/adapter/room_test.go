package adapter

import (
	"testing"

	"softrdma/internal/link"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
)

// A gate is a link.Limited with or without room.
type gate struct {
	*stub
	open bool
}

func (g *gate) Level(_, serviceLevel uint8) uint8 { return serviceLevel }

func (g *gate) Room(uint8) bool { return g.open }

// A queue pair sends nothing into a link without room, and continues when there is some. While
// there is none, the lane has nothing to do.
func TestPacketsWaitForRoomInTheLink(t *testing.T) {
	e := newEnd(t, "192.0.2.1:4791", Config{Manual: true}, qp.RC, 64)
	l := e.dev.packets[0]
	g := &gate{stub: e.link}
	l.network.caps.Limited = g
	var _ link.Limited = g
	q := e.create(qp.RC, e.cq)
	l.Lock()
	defer l.Unlock()
	for range 3 {
		e.send(q, 1, queue.SendWQE{Op: queue.Send})
		l.Act(l.dev.clock())
	}
	if n := len(e.link.sent); n > 0 {
		t.Fatalf("%d batches without room", n)
	}
	if l.Act(l.dev.clock()) || l.Next() == 0 {
		t.Error("the lane is busy without room")
	}
	g.open = true
	if !l.Act(l.dev.clock()) || len(e.link.sent) != 1 {
		t.Errorf("%d batches after there is room", len(e.link.sent))
	}
}
