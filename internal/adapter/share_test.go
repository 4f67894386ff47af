package adapter_test

import (
	"testing"
	"time"

	"softrdma/internal/adapter"
	"softrdma/internal/congestion"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/simnet"
	"softrdma/internal/simnet/rig"
)

const (
	many        = 200
	manyMessage = 16 << 10
	manyBuffer  = 256 << 10 // of each socket: less than a tenth of the data to send
)

// newManyConnections makes two devices with many connections between them.
func newManyConnections(t *testing.T, depth int) (a, b *side, all [][2]*adapter.QP) {
	t.Helper()
	far := simnet.LinkConfig{ReceiveBuffer: manyBuffer, Segments: 5, Counts: true, Egress: simnet.Faults{Delay: 20 * time.Microsecond}}
	a, b = pair(t, qp.RC, far, adapter.Config{Control: congestion.None})
	cq, err := a.Dev.CreateCQ(many*depth, nil)
	must(t, err)
	for range many {
		x, err := a.PD.CreateQP(&adapter.QPConfig{Type: qp.RC, SendCQ: cq, RecvCQ: cq, SendDepth: depth, SendSGE: 1})
		must(t, err)
		y, err := b.PD.CreateQP(&adapter.QPConfig{Type: qp.RC, SendCQ: b.cq, RecvCQ: b.cq})
		must(t, err)
		must(t, rig.Connect(x, y, rig.Options{MTU: 4096, Timeout: 18}))
		all = append(all, [2]*adapter.QP{x, y})
	}
	a.cq = cq
	return a, b, all
}

// Many queue pairs that start at once must not overflow the peer's socket, nor this side's with the
// responses to their READs. Nothing may be lost, and each gets its turn.
func TestManyQueuePairsShareThePeersSocket(t *testing.T) {
	for _, op := range []queue.Op{queue.Write, queue.Read} {
		const each = 5
		a, b, all := newManyConnections(t, each)
		for _, q := range all {
			for range each {
				must(t, rig.PostSend(q[0], rig.Send{Op: op, Flags: queue.Signaled,
					SGEs: []memory.SGE{a.sge(0, manyMessage)}, Addr: b.mr.Base, RKey: b.mr.Key}))
			}
		}
		done := map[uint32]int{}
		var got [64]queue.CQE
		total := 0
		must(t, a.Net.Run(func() bool {
			for _, c := range got[:rig.Poll(a.cq, got[:])] {
				if c.Status != queue.Success {
					t.Fatalf("%+v", c)
				}
				done[c.QPN]++
				total++
				if total == many*each/2 && len(done) < many/2 {
					t.Errorf("operation %d: half of the messages went over %d of %d queue pairs", op, len(done), many)
				}
			}
			return total == many*each
		}, waitTime))
		if n := a.Link.Overruns + b.Link.Overruns; n != 0 {
			t.Errorf("operation %d: %d packets found no room", op, n)
		}
		if took := a.Net.Clock(); took > time.Second {
			t.Errorf("operation %d took %v", op, took)
		}
	}
}

// Data sent to an unresponsive queue pair must delay the others only until the sender detects it.
func TestSilentQueuePairsDoNotBlockOthers(t *testing.T) {
	a, b, all := newManyConnections(t, 1)
	silent := all[:many/2]
	for _, q := range silent {
		must(t, q[1].Destroy())
	}
	for _, q := range all {
		must(t, rig.PostSend(q[0], rig.Send{Op: queue.Write, Flags: queue.Signaled,
			SGEs: []memory.SGE{a.sge(0, manyMessage)}, Addr: b.mr.Base, RKey: b.mr.Key}))
	}
	var got [many]queue.CQE
	n := 0
	start := a.Net.Clock()
	must(t, a.Net.Run(func() bool {
		n += rig.Poll(a.cq, got[n:])
		return n >= many-len(silent)
	}, waitTime))
	if took := a.Net.Clock() - start; took > 5*time.Second { // their timeout is 1.07 s
		t.Errorf("the others took %v", took)
	}
	for _, c := range got[:many-len(silent)] {
		if c.Status != queue.Success {
			t.Errorf("%+v", c)
		}
	}
}

// batches returns how many batches a side has sent on all lanes.
func (s *side) batches() int {
	n := s.Link.Batches
	for _, l := range s.More {
		n += l.Batches
	}
	return n
}

// When much is in flight to the peer, requests to one queue pair after the other leave in batches,
// and so do the peer's acknowledges.
func TestShortMessagesOfManyQueuePairsShareBatches(t *testing.T) {
	const message = 2 << 10
	a, b, all := newManyConnections(t, 1)
	for _, q := range all {
		must(t, rig.PostSend(q[0], rig.Send{Op: queue.Write, Flags: queue.Signaled,
			SGEs: []memory.SGE{a.sge(0, message)}, Addr: b.mr.Base, RKey: b.mr.Key}))
	}
	first := *lanes * (64<<10/message + 1) // puts that much in flight on a lane
	if n := a.batches(); n > first+(many-min(first, many))/4 {
		t.Errorf("%d messages left in %d batches, of which the first %d by themselves", many, n, first)
	}
	var got [many]queue.CQE
	n := 0
	must(t, a.Net.Run(func() bool {
		n += rig.Poll(a.cq, got[n:])
		return n == many
	}, waitTime))
	for _, c := range got {
		if c.Status != queue.Success {
			t.Errorf("%+v", c)
		}
	}
	if n := b.batches(); n > many/2 {
		t.Errorf("%d acknowledges left in %d batches", many, n)
	}
}

// However much a queue pair has in flight, its next request does not wait for others.
func TestMessagesOfOneQueuePairLeaveAtOnce(t *testing.T) {
	const depth = 20
	a, b, all := newManyConnections(t, depth)
	q := all[0][0]
	for i := range depth {
		must(t, rig.PostSend(q, rig.Send{Op: queue.Write, SGEs: []memory.SGE{a.sge(0, 4096)}, Addr: b.mr.Base, RKey: b.mr.Key}))
		if n := a.batches(); n != i+1 {
			t.Fatalf("%d batches after %d messages", n, i+1)
		}
	}
}
