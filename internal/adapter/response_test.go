package adapter_test

import (
	"net/netip"
	"testing"

	"softrdma/internal/memory"
	"softrdma/internal/queue"
	"softrdma/internal/simnet/rig"
)

// The acknowledge of a WRITE waits for what the poller may post in answer. The responses to READs
// and atomics are the answer.
func TestPollSendsResponsesAtOnceAndLeavesAcknowledges(t *testing.T) {
	for _, c := range []struct {
		op   queue.Op
		once bool
	}{{queue.Write, false}, {queue.Read, true}, {queue.FetchAdd, true}, {queue.CompareSwap, true}} {
		x, y := &cable{local: netip.MustParseAddrPort("10.0.0.1:4791")}, &cable{local: netip.MustParseAddrPort("10.0.0.2:4791")}
		x.peer, y.peer = y, x
		from, to := newCabled(t, x, 15), newCabled(t, y, 15)
		must(t, rig.Connect(from.qp, to.qp, rig.Options{}))
		must(t, rig.PostSend(from.qp, rig.Send{
			Op: c.op, Addr: 0x10000, RKey: to.mr.Key, Flags: queue.Signaled,
			SGEs: []memory.SGE{{Addr: from.mr.Base, Length: 8, LKey: from.mr.Key}},
		}))
		to.cq.Progress(true)
		if x.full != c.once {
			t.Errorf("%v: sent with the first poll: %v, expected %v", c.op, x.full, c.once)
		}
		to.cq.Progress(true)
		var got [1]queue.CQE
		if from.cq.Progress(true); rig.Poll(from.cq, got[:]) != 1 || got[0].Status != queue.Success {
			t.Errorf("%v: completion %+v, expected success after the second poll", c.op, got[0])
		}
		must(t, from.dev.Close())
		must(t, to.dev.Close())
	}
}
