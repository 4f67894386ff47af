package adapter_test

import (
	"errors"
	"slices"
	"testing"

	"softrdma/internal/adapter"
	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/simnet"
	"softrdma/internal/simnet/rig"
)

// IBTA 11.6.3.2: an overrun is an affiliated event of the completion queue. The queue pairs that
// complete to it go to the error state; others keep working.
func TestCQOverflowRaisesEventAndFailsItsQPs(t *testing.T) {
	a, b := pair(t, qp.RC, simnet.LinkConfig{}, adapter.Config{})
	small, err := a.Dev.CreateCQ(3, nil)
	must(t, err)
	victim, err := a.PD.CreateQP(&adapter.QPConfig{
		Type: qp.RC, SendCQ: small, RecvCQ: a.cq, SendDepth: 15, SendSGE: 1, RecvDepth: 15, RecvSGE: 1, Inline: 8,
	})
	must(t, err)
	peer := b.newQP(t, qp.RC, nil)
	must(t, rig.Connect(victim, peer, rig.Options{}))
	must(t, rig.Connect(a.qp, b.qp, rig.Options{}))
	for i := range 4 {
		must(t, rig.PostSend(victim, rig.Send{
			ID: uint64(i), Op: queue.Write, Flags: queue.Signaled, Inline: []byte{1}, Addr: b.mr.Base, RKey: b.mr.Key,
		}))
	}
	must(t, a.Net.Run(func() bool { return victim.Query().State == qp.Err }, waitTime))
	if small.Err() == nil || !errors.Is(small.Err(), adapter.ErrOverflow) {
		t.Errorf("queue's error is %v", small.Err())
	}
	ev := a.Events()
	if types := rig.Types(ev); !slices.Contains(types, machine.EventCQErr) || !slices.Contains(types, machine.EventQPFatal) || len(types) != 2 {
		t.Fatalf("events %v", ev)
	}
	for _, e := range ev {
		if e.Type == machine.EventCQErr && e.Element != small || e.Type == machine.EventQPFatal && e.Element != victim {
			t.Errorf("event %d of %v", e.Type, e.Element)
		}
		if e.Detail.Reason != reason.CQOverflow {
			t.Errorf("event %d for %v", e.Type, e.Detail)
		}
	}
	var got [8]queue.CQE
	if n := rig.Poll(small, got[:]); n != 3 || got[0].WRID != 0 || got[2].WRID != 2 || got[2].Status != queue.Success {
		t.Errorf("%d completions were kept: %+v", n, got[:n])
	}
	exchange(t, a, b, 500) // another queue pair of the device
	must(t, victim.Destroy())
	must(t, peer.Destroy())
	must(t, small.Destroy())
	tearDown(t, a, b)
}

// IBTA 10.2.9.4: the limit event is raised once, when fewer requests are left.
func TestSRQLimitRaisesOneEvent(t *testing.T) {
	a, b := pair(t, qp.UC, simnet.LinkConfig{}, adapter.Config{})
	srq, err := b.PD.CreateSRQ(15, 1)
	must(t, err)
	q := b.newQP(t, qp.UC, srq)
	must(t, rig.Connect(a.qp, q, rig.Options{}))
	for i := range 5 {
		must(t, rig.PostRecv(srq.Ring(), uint64(i), b.sge(64*i, 64)))
	}
	must(t, srq.SetLimit(4))
	for i, want := range []int{0, 1, 0, 0} { // five, four, three are left
		must(t, rig.PostSend(a.qp, rig.Send{ID: uint64(i), Op: queue.Send, Inline: []byte{byte(i)}}))
		expect(t, b, uint64(i), queue.Success)
		ev := b.Events()
		if len(ev) != want {
			t.Fatalf("message %d: events %v", i, ev)
		}
		if want == 1 && (ev[0].Type != machine.EventSRQLimitReached || ev[0].Element != srq || ev[0].Detail.Found != 3) {
			t.Errorf("event %+v", ev[0])
		}
		if i == 0 && srq.Limit() != 4 || i > 0 && srq.Limit() != 0 {
			t.Errorf("message %d: limit is %d", i, srq.Limit())
		}
	}
	if err := srq.SetLimit(16); err == nil {
		t.Error("a limit over the depth was taken")
	}
	must(t, srq.SetLimit(2)) // one is left: at once
	if ev := b.Events(); len(ev) != 1 {
		t.Errorf("limit over what is left: events %v", ev)
	}
	must(t, q.Destroy())
	must(t, srq.Destroy())
	tearDown(t, a, b)
}

// Resizing keeps the entries of the queues.
func TestResizeKeepsEntries(t *testing.T) {
	a, b := connected(t, qp.UC)
	srq, err := b.PD.CreateSRQ(3, 1)
	must(t, err)
	for i := range 3 {
		must(t, rig.PostRecv(srq.Ring(), uint64(i), b.sge(64*i, 64)))
	}
	must(t, srq.Resize(15))
	if err := srq.Resize(1); err == nil {
		t.Error("shrunk below what is posted")
	}
	must(t, rig.PostRecv(srq.Ring(), 3, b.sge(192, 64)))
	var r machine.Receive
	for i := range 4 {
		if !srq.Take(&r) || r.WRID != uint64(i) || r.SGEs[0] != b.sge(64*i, 64) {
			t.Errorf("request %d after the resize: %+v", i, r)
		}
	}
	for i := range 5 {
		b.recv(t, uint64(i), 64*i, 64)
		must(t, rig.PostSend(a.qp, rig.Send{Op: queue.Send, Inline: []byte{byte(i)}}))
	}
	must(t, b.Net.Run(func() bool { return b.cq.Ring().Len() == 5 }, waitTime))
	if err := b.cq.Resize(3); err == nil {
		t.Error("shrunk below what it holds")
	}
	must(t, b.cq.Resize(200))
	for i := range 5 {
		expect(t, b, uint64(i), queue.Success)
	}
	must(t, srq.Destroy())
	tearDown(t, a, b)
}
