package machine_test

import (
	"testing"
	"time"

	"softrdma/internal/machine"
)

// A repeater drops each second packet as one that it has had.
type repeater struct{ n int }

func (r *repeater) Receive(_ time.Duration, in *machine.In) {
	r.n++
	if r.n%2 == 0 {
		in.Drop()
	}
	in.Payload = nil
}

func TestTrafficLeavesRepeatedPayloadOut(t *testing.T) {
	var c, sum machine.Traffic
	var r repeater
	in := machine.In{}
	for range 4 {
		in.Payload = make([]byte, 100)
		c.Receive(0, &r, &in)
	}
	sum.Add(c)
	sum.Add(machine.Traffic{Sent: 7, Received: 1})
	if want := (machine.Traffic{Sent: 7, Received: 201}); sum != want {
		t.Errorf("counted %+v, expected %+v", sum, want)
	}
}
