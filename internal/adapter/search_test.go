package adapter

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"softrdma/internal/qp"
	"softrdma/internal/reason"
)

// Before a channel to an address is known, one route serves all its devices. A search is for the
// device of the datagram that begins it.
func TestSearchLooksForTheQueuePairOfTheDatagram(t *testing.T) {
	var now atomic.Int64
	asked := make(chan uint32)
	e := newEnd(t, "192.0.2.1:4791", Config{
		Manual: true, Clock: func() time.Duration { return time.Duration(now.Load()) },
		Reach: func(_ qp.Endpoint, qpn uint32) error {
			asked <- qpn
			return reason.Detail{Reason: reason.HostClosed}.Err()
		},
	}, qp.UD, 64)
	l := e.dev.packets[0]
	s := &search{lane: l, peer: e.dev.Local(), qpn: 0x101}
	for _, qpn := range []uint32{0x101, 0x102} {
		now.Add(int64(searchPause))
		l.Lock()
		running := s.look(qpn)
		l.Unlock()
		if !running {
			t.Fatal("no search")
		}
		if got := <-asked; got != qpn {
			t.Errorf("looked for queue pair %#x, expected %#x", got, qpn)
		}
		for running {
			runtime.Gosched()
			l.Lock()
			running = s.running
			l.Unlock()
		}
	}
}
