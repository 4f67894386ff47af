package adapter_test

import (
	"testing"

	"softrdma/internal/adapter"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/simnet/rig"
)

// Each queue pair counts the payload that it takes, that of READs where it arrives, and all queue pairs
// together as much as their device.
func TestQueuePairsCountReceivedPayload(t *testing.T) {
	for _, c := range []struct {
		name           string
		kind           qp.Type
		op             queue.Op
		n              int
		left, received int // bytes that the requester and its peer have taken in the end
	}{
		{"SEND", qp.RC, queue.Send, 16 << 10, 0, 16 << 10},
		{"short WRITE", qp.RC, queue.Write, 8, 0, 8},
		{"WRITE", qp.RC, queue.Write, 16<<10 + 3, 0, 16<<10 + 3},
		{"READ", qp.RC, queue.Read, 16 << 10, 16 << 10, 0},
		{"unreliable SEND", qp.UC, queue.Send, 16 << 10, 0, 16 << 10},
		{"datagram", qp.UD, queue.Send, 64, 0, 64},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b, udp := aligned(t, c.kind)
			x := b.newQP(t, c.kind, nil) // has no traffic
			b.recv(t, 1, 0, c.n+64)
			must(t, rig.PostSend(a.qp, rig.Send{
				ID: 2, Op: c.op, Flags: queue.Signaled, SGEs: []memory.SGE{a.sge(0, c.n)}, Addr: b.mr.Base, RKey: b.mr.Key, UD: udp,
			}))
			expect(t, a, 2, queue.Success)
			for a.Net.Step() && (c.kind != qp.UD || b.cq.Ring().Len() == 0) { // the flow of datagrams ends later
			}
			counts := func(s *side) map[uint32]uint64 {
				all := make(map[uint32]uint64)
				for _, q := range adapter.ObjectsOf(s.Dev).QPs {
					all[q.Number] = q.Received
				}
				return all
			}
			if got := counts(a)[a.qp.QPN]; got != uint64(c.left) || got != a.Dev.Traffic().Received {
				t.Errorf("the requester counted %d bytes, its device %d, expected %d", got, a.Dev.Traffic().Received, c.left)
			}
			if all := counts(b); all[b.qp.QPN] != uint64(c.received) || all[b.qp.QPN] != b.Dev.Traffic().Received || all[x.QPN] != 0 {
				t.Errorf("the peer counted %d bytes, its device %d and its idle queue pair %d, expected %d", all[b.qp.QPN], b.Dev.Traffic().Received, all[x.QPN], c.received)
			}
		})
	}
}
