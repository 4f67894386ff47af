package adapter_test

import (
	"testing"

	"softrdma/internal/adapter"
	"softrdma/internal/adapter/partition"
	"softrdma/internal/frame"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/simnet"
	"softrdma/internal/simnet/rig"
)

// count is how often the side has given a reason.
func (s *side) count(r reason.Reason) uint64 {
	for x, n := range s.Dev.Trace.Counters(0) {
		if x == r {
			return n
		}
	}
	return 0
}

const toInit = qp.MaskState | qp.MaskPKeyIndex | qp.MaskPort | qp.MaskQKey

// partitioned returns two ends for datagrams with the P_Keys at an index of the same table.
func partitioned(t *testing.T, here, there uint16) (a, b *side) {
	t.Helper()
	a, b = pair(t, qp.UD, simnet.LinkConfig{}, adapter.Config{PKeys: partition.Table{0xffff, 0x8001, 0x0001, 0}})
	for s, index := range map[*side]uint16{a: here, b: there} {
		must(t, s.qp.Modify(toInit, &qp.Attr{State: qp.Init, Port: 1, QKey: 0x11, PKeyIndex: index}))
		must(t, s.qp.Modify(qp.MaskState, &qp.Attr{State: qp.RTR}))
		must(t, s.qp.Modify(qp.MaskState|qp.MaskSQPSN, &qp.Attr{State: qp.RTS}))
	}
	return a, b
}

func (s *side) sendTo(t *testing.T, to *side) {
	t.Helper()
	ah, err := s.PD.CreateAH(qp.Path{Dst: to.Dev.Local()})
	must(t, err)
	must(t, rig.PostSend(s.qp, rig.Send{
		ID: 1, Op: queue.Send, Flags: queue.Signaled, Inline: []byte("data"), UD: queue.UD{RemoteQPN: to.qp.QPN, RemoteQKey: 0x11, AHNum: ah},
	}))
	expect(t, s, 1, queue.Success)
}

func TestPartitionsPartQueuePairs(t *testing.T) {
	for _, c := range []struct {
		here, there uint16
		arrives     bool
	}{
		{0, 0, true},
		{1, 1, true},
		{1, 2, true}, // one end is a full member
		{2, 1, true},
		{2, 2, false}, // two limited members
		{0, 1, false},
		{1, 0, false},
	} {
		a, b := partitioned(t, c.here, c.there)
		b.recv(t, 2, 0, 64)
		a.sendTo(t, b)
		if c.arrives {
			expect(t, b, 2, queue.Success)
			continue
		}
		if err := b.Net.Run(func() bool { return b.count(reason.PacketPKey) == 1 }, waitTime); err != nil || b.cq.Ring().Len() != 0 {
			t.Errorf("from index %d to index %d: not refused: %v", c.here, c.there, err)
		}
	}
}

func TestRemovedPartitionSendsNothing(t *testing.T) {
	a, b := partitioned(t, 1, 1)
	a.Dev.Configure(&adapter.PortConfig{Port: frame.Port{}, MTU: 1024, PKeys: partition.Table{0xffff, 0, 0, 0}})
	a.sendTo(t, b)
	if n := a.count(reason.SendPKey); n != 1 {
		t.Errorf("SEND_PKEY %d times", n)
	}
	must(t, a.qp.Modify(qp.MaskState, &qp.Attr{State: qp.Reset}))
	if err := a.qp.Modify(toInit, &qp.Attr{State: qp.Init, Port: 1, PKeyIndex: 4}); err == nil {
		t.Error("an index behind the end of the table was taken")
	}
	if a.Dev.MTU() != 1024 || a.qp.Query().PathMTU != 1024 {
		t.Errorf("MTU %d, of datagrams %d", a.Dev.MTU(), a.qp.Query().PathMTU)
	}
}
