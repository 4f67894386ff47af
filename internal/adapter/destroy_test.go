package adapter

import (
	"testing"
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/qp"
)

// A witness records the states that the machine of a queue pair is taken to.
type witness struct {
	machine.Machine
	q      *QP
	states []qp.State
}

func (w *witness) Transition(now time.Duration, from qp.State) {
	w.states = append(w.states, w.q.Attr.State)
	w.Machine.Transition(now, from)
}

// The machine of a queue pair that is destroyed frees what its lane lends: requests held behind a lost one count against
// the limit of all connections.
func TestDestroyEndsTheMachine(t *testing.T) {
	for _, kind := range []qp.Type{qp.RC, qp.UC, qp.UD} {
		e := newEnd(t, "192.0.2.1:4791", Config{Manual: true}, kind, 16)
		e.qp.begin(0)
		w := &witness{Machine: e.qp.m, q: e.qp}
		e.qp.setMachine(w)
		e.check(e.qp.Destroy())
		if len(w.states) != 1 || w.states[0] != qp.Reset {
			t.Errorf("%v: the machine came to %v", kind, w.states)
		}
	}
}
