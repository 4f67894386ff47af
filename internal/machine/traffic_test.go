package machine_test

import (
	"testing"
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/trace"
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
	var c, sum trace.Traffic
	var p machine.Port
	var r repeater
	in := machine.In{}
	for range 4 {
		in.Payload = make([]byte, 100)
		machine.Deliver(&c, &p, 0, &r, &in)
	}
	sum.Add(c)
	sum.Add(trace.Traffic{Sent: 7, Received: 1, SentPackets: 3})
	if want := (trace.Traffic{Sent: 7, Received: 201, SentPackets: 3, ReceivedPackets: 4}); sum != want {
		t.Errorf("counted %+v, expected %+v", sum, want)
	}
	if p.Received != 200 {
		t.Errorf("the queue pair counted %d bytes, expected 200", p.Received)
	}
}
