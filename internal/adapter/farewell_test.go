package adapter_test

import (
	"testing"

	"softrdma/internal/adapter"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	flight "softrdma/internal/recorder"
	"softrdma/internal/simnet"
	"softrdma/internal/simnet/rig"
	"softrdma/internal/steering"
)

// A queue pair of a program knows why its peer has left or has rejected it, though the connection manager
// is another process's, and that process knows why the queue pair has failed.
func TestReasonsCrossToTheConnectionManagersProcess(t *testing.T) {
	if *lanes > 1 {
		t.Skip("SKIPPED: a program has one lane")
	}
	said := reason.Detail{Reason: reason.CMAbandoned, Expected: 1, Found: 2}
	failed := reason.Detail{Reason: reason.RetryExceeded, Expected: 7, Found: 8}
	toErr := func(t *testing.T, q *adapter.QP) { must(t, q.Modify(qp.MaskState, &qp.Attr{State: qp.Err})) }
	for name, x := range map[string]struct {
		early    bool // in INIT
		said     reason.Detail
		end      func(t *testing.T, s *side)
		why      reason.Reason
		failures uint64
	}{
		"left":            {said: said, end: func(t *testing.T, s *side) { toErr(t, s.qp) }},
		"failed":          {said: failed, end: func(t *testing.T, s *side) { toErr(t, s.qp); toErr(t, s.qp) }, failures: 1},
		"rejected":        {early: true, said: failed, end: func(t *testing.T, s *side) { toErr(t, s.qp) }, failures: 1},
		"says nothing":    {end: func(t *testing.T, s *side) { toErr(t, s.qp) }},
		"fails, too":      {said: said, end: misuse, why: reason.LocalKey, failures: 1},
		"fails by itself": {end: misuse, why: reason.LocalKey, failures: 1},
	} {
		n, slot := simnet.New(1), flight.SlotIn(make([]byte, flight.SlotSize))
		server := newSide(t, n, "10.0.0.1:4791", qp.RC, simnet.LinkConfig{}, adapter.Config{Share: steering.Share{Lanes: 1, Of: 4}})
		program := newSide(t, n, "10.0.0.2:4791", qp.RC, simnet.LinkConfig{}, adapter.Config{Share: steering.Share{First: 1, Lanes: 1, Of: 4}, Record: &slot.Memory})
		peer := newSide(t, n, "10.0.0.3:4791", qp.RC, simnet.LinkConfig{}, adapter.Config{})
		qpn := program.qp.QPN
		server.Dev.PeerLeft(qpn, said) // before it knows of programs
		server.Dev.SetElsewhere(func(lane int, f func(*flight.Pairs)) {
			if lane == 1 {
				f(slot.Pairs())
			}
		})
		if x.early {
			must(t, program.qp.Modify(qp.MaskState|qp.MaskPKeyIndex|qp.MaskPort|qp.MaskAccess, &qp.Attr{State: qp.Init, Port: 1}))
		} else {
			must(t, rig.Connect(program.qp, peer.qp, rig.Options{}))
		}
		program.recv(t, 5, 0, 8)
		if x.said.Reason != reason.None {
			server.Dev.PeerLeft(qpn, x.said)
		}
		server.Dev.PeerLeft(qpn+1, said) // the lane of no program
		x.end(t, program)
		all, err := program.Wait(program.cq, 1+map[bool]int{true: 1}[x.why != reason.None])
		must(t, err)
		e := all[len(all)-1]
		if own, other := e.Reasons(); e.WRID != 5 || e.Status != queue.WRFlushErr || own.Reason != reason.Flushed || other != x.said {
			t.Errorf("%s: work request %d: %v, %v, the peer says %v, expected %v", name, e.WRID, e.Status, own, other, x.said)
		}
		if why := server.Dev.Why(qpn); why.Reason != x.why {
			t.Errorf("%s: the queue pair has failed for %v, expected %v", name, why, x.why)
		}
		if _, n := program.Dev.Failures(); n != x.failures {
			t.Errorf("%s: %d failures, expected %d", name, n, x.failures)
		}
		must(t, program.qp.Modify(qp.MaskState, &qp.Attr{State: qp.Reset}))
		if why := server.Dev.Why(qpn); why.Reason != reason.None || server.Dev.Why(qpn+1).Reason != reason.None {
			t.Errorf("%s: a queue pair in RESET has failed for %v", name, why)
		}
	}
}

// misuse posts a request whose memory does not exist.
func misuse(t *testing.T, s *side) {
	t.Helper()
	must(t, rig.PostSend(s.qp, rig.Send{Op: queue.Send, Flags: queue.Signaled, SGEs: []memory.SGE{{Addr: 8, Length: 8, LKey: 0xdead}}}))
}
