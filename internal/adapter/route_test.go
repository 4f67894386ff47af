package adapter_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"softrdma/internal/adapter"
	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/object"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/simnet"
	"softrdma/internal/simnet/rig"
	"softrdma/internal/trace"
)

// everyRoute calls f with two connected sides for each kind of route.
func everyRoute(t *testing.T, f func(t *testing.T, a, b *side)) {
	for _, path := range []object.Path{object.PathNetwork, object.PathSameProcess, object.PathSameHost} {
		t.Run(fmt.Sprint("path ", path), func(t *testing.T) {
			cfg := adapter.Config{}
			if path == object.PathSameProcess {
				cfg.Loopback = new(adapter.Loopback)
			}
			a, b := pair(t, qp.RC, simnet.LinkConfig{}, cfg)
			if path == object.PathSameHost {
				_, err := rig.Join(a.Host, b.Host, rig.BondConfig{})
				must(t, err)
			}
			must(t, rig.Connect(a.qp, b.qp, rig.Options{MTU: 1024}))
			if got := a.qp.Path(); got != path {
				t.Fatalf("packets take %v, expected %v", got, path)
			}
			f(t, a, b)
		})
	}
}

// transfer makes two WRITEs, a READ and a SEND of n bytes.
func transfer(t *testing.T, a, b *side, n int) {
	t.Helper()
	for i := range a.mem[:n] {
		a.mem[i] = byte(i*13 + n)
	}
	half := regionLen / 2
	b.recv(t, 9, half, n)
	for id, s := range []rig.Send{
		{Op: queue.Write, SGEs: []memory.SGE{a.sge(0, n)}, Addr: b.mr.Base},
		{Op: queue.Write, SGEs: []memory.SGE{a.sge(0, n/3), a.sge(n/3, n-n/3)}, Addr: b.mr.Base},
		{Op: queue.Read, SGEs: []memory.SGE{a.sge(half, n)}, Addr: b.mr.Base},
		{Op: queue.Send, SGEs: []memory.SGE{a.sge(0, n)}},
	} {
		s.ID, s.RKey, s.Flags = uint64(id), b.mr.Key, queue.Signaled
		must(t, rig.PostSend(a.qp, s))
	}
	for id := range uint64(4) {
		expect(t, a, id, queue.Success)
	}
	expect(t, b, 9, queue.Success)
	if !bytes.Equal(a.mem[:n], b.mem[:n]) || !bytes.Equal(a.mem[:n], a.mem[half:][:n]) || !bytes.Equal(a.mem[:n], b.mem[half:][:n]) {
		t.Fatal("wrong bytes arrived")
	}
}

// A waiting call polls for longer only where polls are cheap and disturb no batches.
func TestOnlyCompletionsThroughMemoryAreNear(t *testing.T) {
	everyRoute(t, func(t *testing.T, a, b *side) {
		transfer(t, a, b, 64)
		for _, s := range []*side{a, b} {
			if near, want := s.cq.Near(), a.qp.Path() == object.PathSameHost; near != want {
				t.Errorf("near: %v, expected %v", near, want)
			}
		}
	})
}

// completions are the Completed events of a trace, as text.
type completions []string

func (c *completions) Trace(e *trace.Event) {
	if e.Kind == trace.Completed {
		*c = append(*c, fmt.Sprintf("%#x %v %d %v %v %v", e.QPN, queue.WCOp(e.Opcode), e.WRID, queue.Status(e.Status), e.Detail.Reason, e.Said.Reason))
	}
}

func TestTraceSeesCompletions(t *testing.T) {
	a, b := connected(t, qp.RC)
	var out, in completions
	a.Dev.Trace.Attach(&out)
	b.Dev.Trace.Attach(&in)
	b.recv(t, 5, 0, 8)
	for id, op := range []queue.Op{queue.Send, queue.Write} {
		must(t, rig.PostSend(a.qp, rig.Send{ID: uint64(id), Op: op, Flags: queue.Signaled, SGEs: []memory.SGE{a.sge(0, 8)}, Addr: b.mr.Base, RKey: ^b.mr.Key}))
	}
	_, err := a.Wait(a.cq, 2)
	must(t, err)
	for _, x := range []struct {
		found completions
		want  []string
	}{
		{out, []string{
			fmt.Sprintf("%#x %v 0 %v %v %v", a.qp.QPN, queue.WCSend, queue.Success, reason.None, reason.None),
			fmt.Sprintf("%#x %v 1 %v %v %v", a.qp.QPN, queue.WCWrite, queue.RemAccessErr, reason.NAKRemoteAccess, reason.KeyUnknown),
		}},
		{in, []string{fmt.Sprintf("%#x %v 5 %v %v %v", b.qp.QPN, queue.WCRecv, queue.Success, reason.None, reason.None)}},
	} {
		if !slices.Equal(x.found, x.want) {
			t.Errorf("found %q, expected %q", x.found, x.want)
		}
	}
}

// Traces at both ends see the same packets, with their ICRCs, whatever the route, and end without
// a trace of them.
func TestTraceSeesThePacketsOfEveryRoute(t *testing.T) {
	everyRoute(t, func(t *testing.T, a, b *side) {
		transfer(t, a, b, 20000)
		var out, in recorder
		ends := []func(){a.Dev.Trace.Attach(&out), b.Dev.Trace.Attach(&in)}
		transfer(t, a, b, 20001)
		for _, x := range []struct{ from, to *recorder }{{&out, &in}, {&in, &out}} {
			sent, received := x.from.kinds[trace.Sent], x.to.kinds[trace.Received]
			if len(sent) < 20 || len(received) < 20 || !bytes.Equal(bytes.Join(sent, nil), bytes.Join(received, nil)) {
				t.Errorf("%d packets sent, %d received", len(sent), len(received))
			}
		}
		if out.bad+in.bad != 0 {
			t.Errorf("%d packets with a wrong ICRC", out.bad+in.bad)
		}
		for _, end := range ends {
			end()
		}
		seen := len(out.kinds[trace.Sent])
		transfer(t, a, b, 20002)
		if len(out.kinds[trace.Sent]) != seen {
			t.Error("the trace goes on")
		}
	})
}

// A device remembers the first failures with the reasons of both ends, and no others.
func TestFailuresAreTheFirstWithBothReasons(t *testing.T) {
	a, b := connected(t, qp.RC)
	must(t, rig.PostSend(a.qp, rig.Send{Op: queue.Write, Flags: queue.Signaled, SGEs: []memory.SGE{a.sge(0, 8)}, Addr: b.mr.Base, RKey: ^b.mr.Key}))
	must(t, rig.PostSend(a.qp, rig.Send{Op: queue.Send, Flags: queue.Signaled, SGEs: []memory.SGE{a.sge(0, 8)}}))
	_, err := a.Wait(a.cq, 2)
	must(t, err)
	first, n := a.Dev.Failures()
	if n != 1 || first[0].Status != queue.RemAccessErr || first[0].Own.Reason != reason.NAKRemoteAccess || first[0].Peer.Reason != reason.KeyUnknown {
		t.Errorf("%d failures, %+v", n, first)
	}
	if first, n = b.Dev.Failures(); n != 1 || first[0].Event != machine.EventQPAccessErr || first[0].Own.Reason != reason.KeyUnknown {
		t.Errorf("%d failures at the peer, %+v", n, first)
	}
	for range 1000 {
		a.Dev.Event(&b.qp.Port, machine.EventQPFatal, reason.Detail{Reason: reason.PeerSilent})
	}
	if first, n = a.Dev.Failures(); n != 1001 || len(first) != 8 {
		t.Errorf("%d failures, of which %d are kept", n, len(first))
	}
}
