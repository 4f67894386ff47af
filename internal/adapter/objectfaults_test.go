package adapter_test

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"softrdma/faults"
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
