package adapter_test

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"softrdma/faults"
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
