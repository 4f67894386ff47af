package adapter_test

import (
	"testing"

	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/simnet/rig"
)

// Nothing on the data path allocates: post, transmit, receive, complete, poll.
func TestDataPathAllocatesNothing(t *testing.T) {
	for _, c := range []struct {
		name string
		kind qp.Type
		op   queue.Op
		n    int
		recv bool
	}{
		{"SEND", qp.RC, queue.Send, 64, true},
		{"SEND of many packets", qp.RC, queue.Send, 16 << 10, true},
		{"WRITE", qp.RC, queue.Write, 8 << 10, false},
		{"WRITE with immediate", qp.RC, queue.WriteImm, 64, true},
		{"READ", qp.RC, queue.Read, 8 << 10, false},
		{"FETCH_ADD", qp.RC, queue.FetchAdd, 8, false},
		{"COMPARE_SWAP", qp.RC, queue.CompareSwap, 8, false},
		{"unreliable SEND", qp.UC, queue.Send, 4 << 10, true},
		{"unreliable WRITE", qp.UC, queue.Write, 4 << 10, false},
		{"datagram", qp.UD, queue.Send, 64, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b, udp := aligned(t, c.kind)
			list := []rig.Send{{
				Op: c.op, Flags: queue.Signaled, SGEs: []memory.SGE{a.sge(0, c.n)}, Addr: b.mr.Base, RKey: b.mr.Key, UD: udp,
			}}
			buffer := []memory.SGE{b.sge(0, c.n+64)}
			var got [4]queue.CQE
			round := func() {
				if c.recv && rig.PostRecv(b.qp.Recv, 1, buffer...) != nil || rig.PostSend(a.qp, list...) != nil {
					t.Fatal("not posted")
				}
				for a.Net.Step() && (c.kind != qp.UD || b.cq.Ring().Len() == 0) { // the flow of datagrams ends later
				}
				n := rig.Poll(a.cq, got[:])
				if n != 1 || got[0].Status != queue.Success {
					t.Fatalf("%d completions, %+v", n, got[0])
				}
				if n = rig.Poll(b.cq, got[:]); c.recv && n != 1 {
					t.Fatalf("%d completions at the receiver", n)
				}
			}
			for range 20 {
				round()
			}
			if n := testing.AllocsPerRun(200, round); n != 0 {
				t.Errorf("%v allocations per message", n)
			}
		})
	}
}

func aligned(t *testing.T, kind qp.Type) (a, b *side, to queue.UD) {
	t.Helper()
	if kind != qp.UD {
		a, b = connected(t, kind)
		return a, b, to
	}
	a, b = datagrams(t)
	ah, err := a.PD.CreateAH(qp.Path{Dst: b.Link.Local()})
	must(t, err)
	return a, b, queue.UD{RemoteQPN: b.qp.QPN, RemoteQKey: 0x11, AHNum: ah}
}
