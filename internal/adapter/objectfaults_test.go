package adapter_test

import (
	"errors"
	"slices"
	"syscall"
	"testing"
	"time"

	"softrdma/faults"
	"softrdma/internal/adapter"
	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/simnet/rig"
)

func rules(t *testing.T, s *side, list ...faults.Rule) {
	t.Helper()
	x, err := faults.New(faults.Rules{Rules: list}, "rdma0")
	must(t, err)
	s.Dev.Inject(x)
}

// A call fails with the errno of its rule, others do not.
func TestCallThatARuleFailsHasItsErrno(t *testing.T) {
	everyRoute(t, func(t *testing.T, a, _ *side) {
		rules(t, a, faults.Rule{Action: faults.Fail, Errno: "ENOMEM", Select: faults.Selector{Call: []string{"ibv_reg_mr"}, Nth: 2}})
		for i, want := range []error{nil, syscall.ENOMEM, nil} {
			if err := a.Dev.FailCall("ibv_reg_mr"); !errors.Is(err, want) {
				t.Errorf("call %d: expected %v, found %v", i+1, want, err)
			}
		}
		if err := a.Dev.FailCall("ibv_create_qp"); err != nil {
			t.Error(err)
		}
	})
}

// Completions that are withheld come later, and all of them.
func TestWithheldCompletionsComeLate(t *testing.T) {
	everyRoute(t, func(t *testing.T, a, b *side) {
		rules(t, a, faults.Rule{Action: faults.Withhold, Time: faults.Duration(time.Millisecond)})
		transfer(t, a, b, 20001)
		transfer(t, a, b, 20002)
	})
}

// Work completes with the status of a rule, the queue pair fails as after any such status, and what follows is
// flushed (IBTA 10.3.1.7).
func TestCompletionHasTheStatusOfARule(t *testing.T) {
	everyRoute(t, func(t *testing.T, a, b *side) {
		rules(t, a, faults.Rule{Action: faults.Complete, Status: "rem_access_err", Select: faults.Selector{Completion: []string{"rdma_write"}, Nth: 2}})
		for range 3 {
			must(t, rig.PostSend(a.qp, rig.Send{Op: queue.Write, Flags: queue.Signaled, SGEs: []memory.SGE{a.sge(0, 8)}, Addr: b.mr.Base, RKey: b.mr.Key}))
		}
		expect(t, a, 0, queue.Success)
		expect(t, a, 0, queue.RemAccessErr)
		expect(t, a, 0, queue.WRFlushErr)
		if s := a.qp.StateHint(); s != qp.Err {
			t.Errorf("the queue pair is in %v, expected ERR", s)
		}
		if n := a.count(reason.FaultInjected); n != 1 {
			t.Errorf("%d hits are counted, expected 1", n)
		}
	})
}

// A withheld completion is not delivered before its time, none is lost, and they keep their order.
func TestWithheldCompletionsKeepTimeAndOrder(t *testing.T) {
	everyRoute(t, func(t *testing.T, a, b *side) {
		rules(t, a, faults.Rule{Action: faults.Withhold, Time: faults.Duration(50 * time.Millisecond), Select: faults.Selector{Nth: 2}})
		start := a.Net.Clock()
		for i := range 4 {
			must(t, rig.PostSend(a.qp, rig.Send{ID: uint64(i), Op: queue.Write, Flags: queue.Signaled, SGEs: []memory.SGE{a.sge(0, 8)}, Addr: b.mr.Base, RKey: b.mr.Key}))
		}
		for i := range 4 {
			expect(t, a, uint64(i), queue.Success)
			if late := a.Net.Clock()-start >= 50*time.Millisecond; late != (i > 0) {
				t.Errorf("completion %d came after %v", i, a.Net.Clock()-start)
			}
		}
	})
}

// An event of a rule comes at its time, once for each object that it concerns, and queue pairs fail as after such an
// event of their own (IBTA 11.6.3).
func TestEventThatARuleRaises(t *testing.T) {
	for name, c := range map[string]struct {
		event machine.Event
		of    func(s *side, other *adapter.QP) []any
		state qp.State
	}{
		"CQ_ERR":              {machine.EventCQErr, func(s *side, _ *adapter.QP) []any { return []any{s.cq, s.cq} }, qp.RTS},
		"QP_FATAL":            {machine.EventQPFatal, bothOf, qp.Err},
		"QP_REQ_ERR":          {machine.EventQPReqErr, bothOf, qp.Err},
		"QP_ACCESS_ERR":       {machine.EventQPAccessErr, bothOf, qp.Err},
		"COMM_EST":            {machine.EventCommEst, bothOf, qp.RTS},
		"SQ_DRAINED":          {machine.EventSQDrained, bothOf, qp.RTS},
		"PATH_MIG":            {machine.EventPathMig, bothOf, qp.RTS},
		"PATH_MIG_ERR":        {machine.EventPathMigErr, bothOf, qp.RTS},
		"DEVICE_FATAL":        {machine.EventDeviceFatal, port, qp.Err},
		"PORT_ACTIVE":         {machine.EventPortActive, port, qp.RTS},
		"PORT_ERR":            {machine.EventPortErr, port, qp.RTS},
		"LID_CHANGE":          {machine.EventLIDChange, port, qp.RTS},
		"PKEY_CHANGE":         {machine.EventPKeyChange, port, qp.RTS},
		"SM_CHANGE":           {machine.EventSMChange, port, qp.RTS},
		"SRQ_ERR":             {machine.EventSRQErr, func(*side, *adapter.QP) []any { return nil }, qp.RTS}, // there is none
		"QP_LAST_WQE_REACHED": {machine.EventQPLastWQEReached, bothOf, qp.RTS},
		"CLIENT_REREGISTER":   {machine.EventClientReregister, port, qp.RTS},
		"GID_CHANGE":          {machine.EventGIDChange, port, qp.RTS},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := connected(t, qp.RC)
			other := a.newQP(t, qp.RC, nil)
			start := a.Net.Clock()
			rules(t, a, faults.Rule{Action: faults.Event, Event: name, Select: faults.Selector{From: faults.Duration(time.Second)}})
			a.Net.Sleep(999 * time.Millisecond)
			if l := a.Events(); len(l) > 0 {
				t.Fatalf("after %v: %v", a.Net.Clock()-start, l)
			}
			a.Net.Sleep(time.Millisecond)
			want := c.of(a, other)
			for _, e := range a.Events() {
				i := slices.Index(want, e.Element)
				if e.Type != c.event || i < 0 || e.Detail.Reason != reason.FaultInjected {
					t.Fatalf("found %+v, expected event %d of %v", e, c.event, want)
				}
				want = slices.Delete(want, i, i+1)
			}
			if len(want) > 0 {
				t.Errorf("no event of %v", want)
			}
			if s := a.qp.StateHint(); s != c.state {
				t.Errorf("the queue pair is in %v, expected %v", s, c.state)
			}
			if l := b.Events(); len(l) > 0 {
				t.Errorf("the peer has %v", l)
			}
		})
	}
}

// bothOf are the queue pairs of a side, and port stands for its port.
func bothOf(s *side, other *adapter.QP) []any { return []any{s.qp, other} }
func port(*side, *adapter.QP) []any           { return []any{nil} }

// An event of a rule with a queue pair is of that one alone.
func TestEventThatARuleRaisesForOneQueuePair(t *testing.T) {
	a, _ := connected(t, qp.RC)
	other := a.newQP(t, qp.RC, nil)
	rules(t, a, faults.Rule{Action: faults.Event, Event: "QP_FATAL", Select: faults.Selector{QP: other.QPN}})
	a.Net.Sleep(time.Millisecond)
	if l := a.Events(); len(l) != 1 || l[0].Element != other || a.qp.StateHint() != qp.RTS {
		t.Errorf("found %+v, expected one event of queue pair 0x%x", l, other.QPN)
	}
}

// While a rule has the port down nothing leaves it, on any route. What was lost is repeated when it is up.
func TestPortThatARuleTakesDown(t *testing.T) {
	everyRoute(t, func(t *testing.T, a, b *side) {
		rules(t, a,
			faults.Rule{Action: faults.PortDown, Select: faults.Selector{From: faults.Duration(time.Second)}},
			faults.Rule{Action: faults.PortUp, Select: faults.Selector{From: faults.Duration(1200 * time.Millisecond)}})
		transfer(t, a, b, 3000)
		a.Net.Sleep(time.Second)
		down := a.Net.Clock()
		if got := rig.Types(a.Events()); !slices.Equal(got, []machine.Event{machine.EventPortErr}) || !a.Dev.PortDown() {
			t.Fatalf("events %v, expected PORT_ERR", got)
		}
		transfer(t, a, b, 20001)
		if took := a.Net.Clock() - down; took < 150*time.Millisecond {
			t.Errorf("a transfer took %v while the port was down for 200 ms", took)
		}
		if got := rig.Types(a.Events()); !slices.Equal(got, []machine.Event{machine.EventPortActive}) || a.Dev.PortDown() {
			t.Errorf("events %v, expected PORT_ACTIVE", got)
		}
		if l := b.Events(); len(l) > 0 {
			t.Errorf("the peer has %v", l)
		}
	})
}
