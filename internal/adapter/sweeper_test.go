package adapter

import (
	"net/netip"
	"testing"
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
)

// Flows that only datagrams use are closed when they are not used for a while, and the device sleeps
// afterwards. Those of connections stay.
func TestFlowsOfDatagramsEnd(t *testing.T) {
	now := time.Duration(1)
	e := newEnd(t, "192.0.2.1:4791", Config{Manual: true, Clock: func() time.Duration { return now }}, qp.UD, 64)
	e.create(qp.RC, e.cq)
	l := e.dev.packets[0]
	connections := len(l.flows.open)
	send := func(peers int) {
		for i := range peers {
			ah, err := e.pd.CreateAH(qp.Path{Dst: netip.AddrPortFrom(netip.AddrFrom4([4]byte{198, 51, 100, byte(i)}), 4791)})
			e.check(err)
			w := queue.SendWQE{Op: queue.Send}
			*w.UD() = queue.UD{RemoteQPN: 7, RemoteQKey: 5, AHNum: ah}
			e.send(e.qp, 1, w)
		}
	}
	pass := func(d time.Duration) {
		now += d
		l.Lock()
		l.Progress()
		l.Unlock()
	}
	send(40)
	if n := len(l.flows.open) - connections; n != 40 {
		t.Fatalf("%d flows to 40 peers", n)
	}
	pass(sweepTime)
	send(3)
	pass(sweepTime)
	if n := len(l.flows.open) - connections; n != 3 {
		t.Errorf("%d flows, expected those to the 3 peers that were sent to later", n)
	}
	pass(sweepTime)
	pass(sweepTime)
	if len(l.flows.open) != connections || l.flows.sweeper.at != machine.Never {
		t.Errorf("%d flows, expected the %d of connections; next sweep at %v", len(l.flows.open), connections, l.flows.sweeper.at)
	}
}
