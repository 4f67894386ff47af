package adapter_test

import (
	"testing"
	"time"

	"softrdma/internal/adapter"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/simnet"
	"softrdma/internal/simnet/rig"
)

// The time of a request is that from its doorbell to its own completion, however many are before it.
func TestLatencyIsThatOfTheNewestRequest(t *testing.T) {
	const delay = 3 * time.Millisecond
	a, b := pair(t, qp.RC, simnet.LinkConfig{Egress: simnet.Faults{Delay: delay}}, adapter.Config{})
	must(t, rig.Connect(a.qp, b.qp, rig.Options{}))
	write := func(id uint64, flags queue.Flags) rig.Send {
		return rig.Send{ID: id, Op: queue.Write, Flags: flags, SGEs: []memory.SGE{a.sge(0, 8)}, Addr: b.mr.Base, RKey: b.mr.Key}
	}
	post := func(list ...rig.Send) { t.Helper(); must(t, rig.PostSend(a.qp, list...)) }
	post(write(1, queue.Signaled))
	expect(t, a, 1, queue.Success)
	if all := a.Dev.Latencies(nil); len(all) != 0 {
		t.Fatalf("found %v before anybody asked", all)
	}
	post(write(2, queue.Signaled), write(2, 0), write(2, queue.Signaled)) // the number says nothing
	post(write(2, queue.Signaled))                                        // while another one is timed
	for range 3 {
		expect(t, a, 2, queue.Success)
	}
	post(write(3, 0)) // has no completion
	post(write(4, queue.Signaled))
	expect(t, a, 4, queue.Success)
	all := a.Dev.Latencies(nil)
	if len(all) != 2 || all[0] < 2*delay || all[0] > 2*delay+time.Millisecond || all[1] < 2*delay || all[1] > 2*delay+time.Millisecond {
		t.Errorf("found %v, expected two of about %v", all, 2*delay)
	}

	post(write(5, queue.Signaled))
	must(t, rig.ToErr(a.qp))
	expect(t, a, 5, queue.WRFlushErr)
	if all := a.Dev.Latencies(nil); len(all) != 0 {
		t.Errorf("found %v for a request in error", all)
	}
	a.Dev.EndLatencies()
}

// A queue pair that is destroyed while its request is timed leaves the lane to others.
func TestLatencyOfADestroyedQueuePairIsForgotten(t *testing.T) {
	a, b := pair(t, qp.RC, simnet.LinkConfig{Egress: simnet.Faults{Delay: time.Millisecond}}, adapter.Config{})
	must(t, rig.Connect(a.qp, b.qp, rig.Options{}))
	a.Dev.Latencies(nil)
	write := rig.Send{ID: 1, Op: queue.Write, Flags: queue.Signaled, SGEs: []memory.SGE{a.sge(0, 8)}, Addr: b.mr.Base, RKey: b.mr.Key}
	must(t, rig.PostSend(a.qp, write))
	must(t, a.qp.Destroy())
	must(t, b.qp.Destroy())
	_ = rig.PostSend(a.qp, write) // a doorbell that was late
	a.qp, b.qp = a.newQP(t, qp.RC, nil), b.newQP(t, qp.RC, nil)
	must(t, rig.Connect(a.qp, b.qp, rig.Options{}))
	must(t, rig.PostSend(a.qp, write))
	expect(t, a, 1, queue.Success)
	if all := a.Dev.Latencies(nil); len(all) != 1 {
		t.Errorf("found %v, expected one", all)
	}
}

// A request that does not complete, such as a SEND to a program that is stopped, does not hide others for long.
func TestLatencyOfARequestThatWaitsHidesNoOther(t *testing.T) {
	a, b := pair(t, qp.RC, simnet.LinkConfig{Egress: simnet.Faults{Delay: time.Millisecond}}, adapter.Config{})
	must(t, rig.Connect(a.qp, b.qp, rig.Options{}))
	a.Dev.Latencies(nil)
	must(t, rig.PostSend(a.qp, rig.Send{ID: 1, Op: queue.Send, Flags: queue.Signaled, SGEs: []memory.SGE{a.sge(0, 8)}}))
	c, d := a.newQP(t, qp.RC, nil), b.newQP(t, qp.RC, nil)
	must(t, rig.Connect(c, d, rig.Options{}))
	write := rig.Send{ID: 2, Op: queue.Write, Flags: queue.Signaled, SGEs: []memory.SGE{a.sge(0, 8)}, Addr: b.mr.Base, RKey: b.mr.Key}
	must(t, rig.PostSend(c, write))
	expect(t, a, 2, queue.Success)
	if all := a.Dev.Latencies(nil); len(all) != 0 {
		t.Fatalf("found %v while another request is timed", all)
	}
	a.Net.Sleep(11 * time.Second)
	a.Dev.Latencies(nil)
	must(t, rig.PostSend(c, write))
	expect(t, a, 2, queue.Success)
	if all := a.Dev.Latencies(nil); len(all) != 1 || all[0] > 10*time.Millisecond {
		t.Errorf("found %v, expected that of the second request", all)
	}
}
