package adapter

import (
	"errors"
	"testing"
	"time"

	"softrdma/internal/adapter/drive"
	"softrdma/internal/link"
	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
)

// twoLanes is an end with a second lane and a queue pair on it.
func twoLanes(t *testing.T, cfg Config, depth int) (e *end, other *QP, second *stub) {
	t.Helper()
	second = newStub("192.0.2.1:4791")
	cfg.Networks = networks(second)
	e = newEnd(t, "192.0.2.1:4791", cfg, qp.UD, depth)
	other = e.create(qp.UD, e.cq)
	if e.qp.lane == other.lane {
		t.Fatal("both queue pairs are on one lane")
	}
	for _, q := range []*QP{e.qp, other} {
		if e.dev.laneOf(q.QPN) != q.lane {
			t.Errorf("queue pair %#x is on lane %d", q.QPN, q.lane.index)
		}
	}
	if e.qp.lane.link == link.Waiter(second) {
		second = e.link
	}
	e.link = e.qp.lane.link.(*stub)
	return e, other, second
}

// A packet on the wrong lane is delivered at once if its lane is free, otherwise by the holder of
// its lane.
func TestPacketAtTheWrongLaneReachesItsQueuePair(t *testing.T) {
	for _, held := range []bool{false, true} {
		e, other, second := twoLanes(t, Config{Manual: true}, 16)
		e.recv()
		second.give, second.from = e.datagram()
		home, wrong := e.qp.packets, other.packets
		if held {
			home.Lock()
		}
		wrong.Lock()
		wrong.Receive(0)
		wrong.Unlock()
		if held {
			if n := e.cq.Ring().Len(); n != 0 {
				t.Errorf("%d completions while somebody has the queue pair's lane", n)
			}
			home.Unlock()
		}
		if n := e.cq.Ring().Len(); n != 1 {
			t.Fatalf("held %v: %d completions, expected the datagram's", held, n)
		}
		c := e.cq.Ring().At(0)
		if c.Status != queue.Success || c.QPN != e.qp.QPN || c.ByteLen != 40 {
			t.Errorf("completion %+v", c)
		}
	}
}

func TestForwardedPacketsBeyondTheLimitAreDropped(t *testing.T) {
	e, other, second := twoLanes(t, Config{Manual: true}, 16)
	second.give, second.from = e.datagram()
	home, wrong := e.qp.packets, other.packets
	room := inboxLimit / len(second.give)
	home.Lock()
	wrong.Lock()
	for range room + 3 {
		wrong.Receive(0)
	}
	wrong.Unlock()
	if n := e.dev.Trace.Counter(reason.PacketStray); n != 3 {
		t.Errorf("%d packets refused for want of room, expected 3", n)
	}
	home.Unlock()
	// No receive is posted, so each forwarded packet is refused for that.
	if n := e.dev.Trace.Counter(reason.PacketNoReceive); n != uint64(room) {
		t.Errorf("%d packets handed over, expected %d", n, room)
	}
}

func TestPacketOfNoQueuePairIsRefusedOnce(t *testing.T) {
	e, other, second := twoLanes(t, Config{Manual: true}, 16)
	second.give, second.from = e.datagram()
	e.check(e.qp.Destroy())
	other.lane.Poll(true)
	if n := e.dev.Trace.Counter(reason.PacketQPN); n == 0 || n > drive.ReceiveBudget {
		t.Errorf("%d packets refused, expected one with each of those received", n)
	}
}

// A poll of a completion queue progresses each lane that completes to it. The first packet on one
// lane does not keep the poll from the other.
func TestPollProgressesTheLanesOfItsQueuePairs(t *testing.T) {
	e, other, second := twoLanes(t, Config{Manual: true}, 64)
	e.link.give, e.link.from = e.datagram()
	mine := e.qp
	e.qp = other
	second.give, second.from = e.datagram()
	came := map[uint32]int{}
	for range 8 {
		for _, q := range []*QP{mine, other} {
			e.qp = q
			e.recv()
			e.recv()
		}
		e.cq.Progress(true)
		for r := e.cq.Ring(); r.Len() > 0; r.Release(r.Next(r.Consumer())) {
			came[r.At(r.Consumer()).QPN]++
		}
	}
	if came[mine.QPN] == 0 || came[other.QPN] == 0 {
		t.Errorf("completions by queue pair %v", came)
	}
}

// Only one lane is the queue's producer.
func TestOverflowFailsQueuePairsOfEveryLane(t *testing.T) {
	e, other, second := twoLanes(t, Config{}, 1)
	for second.waits.Load() == 0 {
		time.Sleep(time.Millisecond) // until the other lane sleeps
	}
	ah, err := e.pd.CreateAH(qp.Path{Dst: e.link.local})
	e.check(err)
	w := queue.SendWQE{Op: queue.Send, Flags: queue.Signaled}
	*w.UD() = queue.UD{RemoteQPN: 7, AHNum: ah}
	e.send(e.qp, 8, w)
	failed := map[any]bool{}
	for len(failed) < 2 {
		failed[e.next(machine.EventQPFatal).Element] = true
	}
	if !failed[e.qp] || !failed[other] {
		t.Errorf("failed: %v", failed)
	}
}

func TestForeignMemoryRequiresOneLane(t *testing.T) {
	e, _, _ := twoLanes(t, Config{Manual: true}, 4)
	if _, err := e.pd.RegisterForeign(make([]byte, 64), 0, 0, memory.Foreign{}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("registered: %v", err)
	}
}
