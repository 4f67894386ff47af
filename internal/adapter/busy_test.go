package adapter_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"softrdma/internal/adapter"
	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/object"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/simnet"
	"softrdma/internal/simnet/rig"
)

// waitTime is in virtual time.
const waitTime = time.Minute

// Objects in use cannot be destroyed. The error counts the users.
func TestDestroyOfUsedObjectIsRefused(t *testing.T) {
	a, b := connected(t, qp.RC)
	busy := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, adapter.ErrBusy) && !errors.Is(err, memory.ErrBusy) {
			t.Errorf("%s: %v, expected a refusal", what, err)
		}
	}
	ch, err := a.Dev.CreateChannel()
	must(t, err)
	cq, err := a.Dev.CreateCQ(4, ch)
	must(t, err)
	srq, err := a.PD.CreateSRQ(4, 1)
	must(t, err)
	q, err := a.PD.CreateQP(&adapter.QPConfig{Type: qp.RC, SendCQ: cq, RecvCQ: cq, SRQ: srq, SendDepth: 1, SendSGE: 1})
	must(t, err)
	ah, err := a.PD.CreateAH(qp.Path{Dst: b.Link.Local()})
	must(t, err)
	window, err := a.PD.AllocWindow(memory.MW2)
	must(t, err)
	must(t, rig.PostSend(a.qp, rig.Send{ID: 1, Op: queue.BindMW, Flags: queue.Signaled, MW: queue.MW{
		Addr: a.mr.Base, Length: 64, MRLKey: a.mr.Key, MWRKey: window, RKey: window&^0xff | 0x42, Access: uint32(qp.RemoteRead),
	}}))
	expect(t, a, 1, queue.Success)

	want := object.Counts{PD: 1, CQ: 2, QP: 2, SRQ: 1, MR: 1, MW: 1, AH: 1, Channel: 1}
	if c := a.Dev.Count(); c != want {
		t.Errorf("counts %+v, expected %+v", c, want)
	}
	busy("channel", ch.Destroy())
	busy("completion queue", cq.Destroy())
	busy("shared receive queue", srq.Destroy())
	busy("protection domain", a.PD.Dealloc())
	busy("region with a window bound", a.PD.Deregister(a.mr))
	if c := a.Dev.Count(); c != want {
		t.Errorf("counts after the refusals %+v, expected %+v", c, want)
	}
	must(t, q.Destroy())
	must(t, q.Destroy()) // the second call has no effect
	must(t, srq.Destroy())
	must(t, cq.Destroy())
	must(t, ch.Destroy())
	must(t, a.PD.DestroyAH(ah))
	if a.PD.DestroyAH(ah) == nil {
		t.Error("an address handle was destroyed twice")
	}
	must(t, a.PD.FreeWindow(window&^0xff|0x42))
	tearDown(t, a, b)
	if c := a.Dev.Count(); c != (object.Counts{}) {
		t.Errorf("left over: %+v", c)
	}
}

// Destroying an object drops its events.
func TestDestroyDropsEvents(t *testing.T) {
	a, b := pair(t, qp.UC, simnet.LinkConfig{}, adapter.Config{})
	ch, err := b.Dev.CreateChannel()
	must(t, err)
	cq, err := b.Dev.CreateCQ(1, ch)
	must(t, err)
	srq, err := b.PD.CreateSRQ(4, 1)
	must(t, err)
	q, err := b.PD.CreateQP(&adapter.QPConfig{Type: qp.UC, SendCQ: cq, RecvCQ: cq, SRQ: srq, SendDepth: 1, SendSGE: 1})
	must(t, err)
	must(t, rig.Connect(a.qp, q, rig.Options{}))
	for i := range 3 {
		must(t, rig.PostRecv(srq.Ring(), uint64(i), b.sge(0, 64)))
	}
	must(t, srq.SetLimit(3))
	cq.Arm(false)
	for range 3 {
		must(t, rig.PostSend(a.qp, rig.Send{Op: queue.Send, Inline: []byte{1}}))
	}
	must(t, b.Net.Run(func() bool { return q.Query().State == qp.Err }, waitTime))
	// Pending events: the queue's overrun, the queue pair's failure, the limit, and one completion
	// event.
	must(t, q.Destroy())
	must(t, srq.Destroy())
	types := map[machine.Event]int{}
	for _, e := range b.Events() {
		types[e.Type]++
	}
	if len(types) != 1 || types[machine.EventCQErr] != 1 {
		t.Errorf("events by type after the queue pair and its receive queue: %v, expected one of the completion queue", types)
	}
	must(t, cq.Destroy())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if c, err := ch.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("completion event of a destroyed queue: %v, %v", c, err)
	}
	must(t, ch.Destroy())
	tearDown(t, a, b)
}

// An armed queue raises one event. If it is armed for solicited completions, only those raise it.
func TestArmedCQRaisesOneEvent(t *testing.T) {
	a, b := pair(t, qp.UC, simnet.LinkConfig{}, adapter.Config{})
	ch, err := b.Dev.CreateChannel()
	must(t, err)
	cq, err := b.Dev.CreateCQ(15, ch)
	must(t, err)
	q, err := b.PD.CreateQP(&adapter.QPConfig{Type: qp.UC, SendCQ: cq, RecvCQ: cq, SendDepth: 1, RecvDepth: 15, RecvSGE: 1})
	must(t, err)
	must(t, rig.Connect(a.qp, q, rig.Options{}))
	events := func() (n int) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for {
			if c, err := ch.Next(ctx); err != nil {
				return n
			} else if c != cq {
				t.Errorf("event of %v", c)
			}
			n++
		}
	}
	message := func(f queue.Flags) {
		t.Helper()
		must(t, rig.PostRecv(q.Recv, 1, b.sge(0, 64)))
		must(t, rig.PostSend(a.qp, rig.Send{Op: queue.Send, Flags: f, Inline: []byte{1}}))
		before := cq.Ring().Len()
		must(t, b.Net.Run(func() bool { return cq.Ring().Len() > before }, waitTime))
	}
	message(0)
	if n := events(); n != 0 {
		t.Errorf("not armed: %d events", n)
	}
	cq.Arm(false)
	message(0)
	message(0)
	if n := events(); n != 1 {
		t.Errorf("armed once: %d events", n)
	}
	cq.Arm(true)
	message(0)
	if n := events(); n != 0 {
		t.Errorf("armed for solicited, unsolicited came: %d events", n)
	}
	message(queue.Solicited)
	if n := events(); n != 1 {
		t.Errorf("armed for solicited: %d events", n)
	}
	cq.Arm(true)
	must(t, rig.PostRecv(q.Recv, 1, b.sge(0, 64)))
	must(t, rig.ToErr(q))
	if n := events(); n != 1 {
		t.Errorf("armed for solicited, one failed: %d events", n)
	}
	must(t, q.Destroy())
	must(t, cq.Destroy())
	must(t, ch.Destroy())
	tearDown(t, a, b)
}

// A closed device refuses new objects, wakes waiting calls, and may be closed again.
func TestClosedDeviceRefusesObjects(t *testing.T) {
	a, b := connected(t, qp.RC)
	a.Net.Release(a.Dev)
	must(t, a.Dev.Close())
	must(t, a.Dev.Close())
	if _, err := a.Dev.AllocPD(); !errors.Is(err, adapter.ErrClosed) {
		t.Errorf("protection domain: %v", err)
	}
	if _, err := a.PD.Register(make([]byte, 8), 0, 0); !errors.Is(err, adapter.ErrClosed) {
		t.Errorf("region: %v", err)
	}
	if _, err := a.Dev.NextEvent(t.Context()); !errors.Is(err, adapter.ErrClosed) {
		t.Errorf("event: %v", err)
	}
	tearDown(t, b)
}
