package hostmem

import (
	"testing"
	"time"
)

func TestMessagesAllocateNothing(t *testing.T) {
	s, r := newRing(t)
	header, pieces := make([]byte, 28), [][]byte{make([]byte, 8), make([]byte, 4096)}
	clock := func() time.Duration { return 0 }
	var m Received
	if n := testing.AllocsPerRun(1000, func() {
		s.Copy(&Head{Port: 1}, header, pieces[:1], 8)
		s.Copy(&Head{Port: 1}, header, pieces, 8+4096)
		s.Refer(&Head{Port: 1}, header, Ref{Offset: 1}, 4096)
		s.Armed()
		s.AwaitRoom()
		s.Revoke(0, clock)
		for range 3 {
			if ok, _ := r.Next(&m); ok && m.Refers && r.Begin() {
				r.Valid()
			}
			r.Release()
		}
		if r.Arm() {
			r.Disarm()
		}
	}); n != 0 {
		t.Errorf("%v allocations for three messages, expected none", n)
	}
}
