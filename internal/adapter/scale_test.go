package adapter_test

import (
	"runtime"
	"testing"

	"softrdma/internal/adapter"
	"softrdma/internal/congestion"
	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/simnet"
	"softrdma/internal/simnet/rig"
)

// idleLimit bounds the memory of a connected queue pair without posted requests, including its flow
// and its entries in the lane's tables.
const idleLimit = 1 << 10

// An idle queue pair needs little memory: deep queues allocate when they are used.
func TestIdleQueuePairTakesLittleMemory(t *testing.T) {
	const n = 1000
	a, b := pair(t, qp.RC, simnet.LinkConfig{}, adapter.Config{})
	config := func(s *side) *adapter.QPConfig {
		return &adapter.QPConfig{Type: qp.RC, SendCQ: s.cq, RecvCQ: s.cq, SendDepth: 128, SendSGE: 4, RecvDepth: 128, RecvSGE: 4}
	}
	var before, after runtime.MemStats
	const first = 200 // with these the flight recorders are full, which are the devices'
	var all [first + 2*n]*adapter.QP
	for i := 0; i < len(all); i += 2 {
		if i == first {
			runtime.GC()
			runtime.ReadMemStats(&before)
		}
		x, err := a.PD.CreateQP(config(a))
		must(t, err)
		y, err := b.PD.CreateQP(config(b))
		must(t, err)
		must(t, rig.Connect(x, y, rig.Options{}))
		all[i], all[i+1] = x, y
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if each := (after.HeapAlloc - before.HeapAlloc) / (2 * n); each > idleLimit {
		t.Errorf("an idle queue pair takes %d bytes, expected at most %d", each, idleLimit)
	} else {
		t.Logf("an idle queue pair takes %d bytes", each)
	}
	for _, q := range all {
		must(t, q.Destroy())
	}
	tearDown(t, a, b)
}

// An idle device uses no processor time: nothing wakes it once the last messages are acknowledged,
// with any congestion control.
func TestIdleDeviceIsNeverWoken(t *testing.T) {
	const n = 1000
	for kind := congestion.Default; kind <= congestion.None; kind++ {
		a, b := pair(t, qp.RC, simnet.LinkConfig{}, adapter.Config{Control: kind})
		deep, err := b.Dev.CreateCQ(n, nil)
		must(t, err)
		var all [n][2]*adapter.QP
		for i := range all {
			x, err := a.PD.CreateQP(&adapter.QPConfig{Type: qp.RC, SendCQ: a.cq, RecvCQ: a.cq, SendDepth: 1, SendSGE: 1})
			must(t, err)
			y, err := b.PD.CreateQP(&adapter.QPConfig{Type: qp.RC, SendCQ: deep, RecvCQ: deep, RecvDepth: 1, RecvSGE: 1})
			must(t, err)
			must(t, rig.Connect(x, y, rig.Options{}))
			must(t, rig.PostRecv(y.Recv, 1, b.sge(0, 64)))
			must(t, rig.PostSend(x, rig.Send{Op: queue.Send, SGEs: []memory.SGE{a.sge(0, 64)}}))
			all[i] = [2]*adapter.QP{x, y}
		}
		must(t, a.Net.Run(func() bool { return deep.Ring().Len() == n }, waitTime))
		steps := 0
		for a.Net.Step() {
			if steps++; steps > 100*n {
				t.Fatalf("%v: the devices keep themselves busy", kind)
			}
		}
		for _, s := range []*side{a, b} {
			if next := s.Dev.Progress(); next != machine.Never {
				t.Errorf("%v: an idle device wants to be woken at %v, now it is %v", kind, next, a.Net.Clock())
			}
		}
		for _, q := range all {
			must(t, q[0].Destroy())
			must(t, q[1].Destroy())
		}
		must(t, deep.Destroy())
		tearDown(t, a, b)
	}
}
