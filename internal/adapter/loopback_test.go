package adapter_test

import (
	"bytes"
	"sync"
	"testing"
	"time"

	"softrdma/internal/adapter"
	"softrdma/internal/memory"
	"softrdma/internal/psn"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/simnet/rig"
	"softrdma/internal/trace"
	"softrdma/internal/wire/ib"
)

func TestLoopbackSendsNothing(t *testing.T) {
	var l adapter.Loopback
	a, linkA := open(t, "127.0.0.1:0", &l)
	b, linkB := open(t, "127.0.0.1:0", &l)
	bothWays(t, a, b)
	if n := linkA.sent.Load() + linkB.sent.Load(); n != 0 {
		t.Errorf("%d batches left the process", n)
	}
}

func TestLoopbackEndsWithTheDevice(t *testing.T) {
	var l adapter.Loopback
	a, link := open(t, "127.0.0.1:0", &l)
	b, _ := open(t, "127.0.0.1:0", &l)
	must(t, rig.Connect(a.qp, b.qp, rig.Options{MTU: 4096}))
	must(t, b.Dev.Close())
	must(t, rig.PostSend(a.qp, rig.Send{Op: queue.Write, SGEs: []memory.SGE{a.sge(0, 8)}, Addr: b.mr.Base, RKey: b.mr.Key}))
	for end := time.Now().Add(20 * time.Second); link.sent.Load() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the packet to a device that is gone went nowhere")
		}
	}
	must(t, a.Dev.Close())
}

// A queue pair may be connected to itself.
func TestLoopbackToTheSameQueuePair(t *testing.T) {
	var l adapter.Loopback
	a, link := open(t, "127.0.0.1:0", &l)
	defer a.Dev.Close()
	must(t, rig.Connect(a.qp, a.qp, rig.Options{MTU: 1024}))
	const size = 10001 // needs padding
	for i := range a.mem[:size] {
		a.mem[i] = byte(i * 7)
	}
	for i := range 20 {
		op := queue.Write
		if i%2 == 1 {
			op = queue.Read
		}
		must(t, rig.PostSend(a.qp, rig.Send{ID: uint64(i), Op: op, Flags: queue.Signaled, SGEs: []memory.SGE{a.sge(0, size)},
			Addr: a.mr.Base + regionLen/2, RKey: a.mr.Key}))
		if c := a.complete(1); len(c) != 1 || c[0].Status != queue.Success {
			t.Fatalf("request %d: %+v", i, c)
		}
	}
	if !bytes.Equal(a.mem[:size], a.mem[regionLen/2:][:size]) {
		t.Error("wrong bytes arrived")
	}
	if n := link.sent.Load(); n != 0 {
		t.Errorf("%d batches left the process", n)
	}
}

// A recorder keeps packets by kind of event and counts those with a wrong ICRC.
type recorder struct {
	mu    sync.Mutex
	kinds map[trace.Kind][][]byte
	bad   int
}

func (r *recorder) Trace(e *trace.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kinds == nil {
		r.kinds = make(map[trace.Kind][][]byte)
	}
	b, head := bytes.Join(e.Packet.Pieces, nil), ib.NewPseudoHeader(e.Packet.Src, e.Packet.Dst)
	if e.Kind == trace.Sent || e.Kind == trace.Received {
		r.kinds[e.Kind] = append(r.kinds[e.Kind], b)
		if head.Sum(e.Packet.ID, b) != ib.ICRC(b) {
			r.bad++
		}
	}
}

func TestLoopbackIsTracedLikeANetwork(t *testing.T) {
	var l adapter.Loopback
	a, _ := open(t, "127.0.0.1:0", &l)
	b, _ := open(t, "127.0.0.1:0", &l)
	defer a.Dev.Close()
	defer b.Dev.Close()
	must(t, rig.Connect(a.qp, b.qp, rig.Options{MTU: 1024, PSN: [2]psn.PSN{1, 2}}))
	var out, in recorder
	defer a.Dev.Trace.Attach(&out)()
	defer b.Dev.Trace.Attach(&in)()
	must(t, rig.PostSend(a.qp, rig.Send{Op: queue.Write, Flags: queue.Signaled, SGEs: []memory.SGE{a.sge(0, 5001)},
		Addr: b.mr.Base, RKey: b.mr.Key}))
	if c := a.complete(1); len(c) != 1 || c[0].Status != queue.Success {
		t.Fatalf("completed as %+v", c)
	}
	sent, received := out.kinds[trace.Sent], in.kinds[trace.Received]
	if len(sent) != 5 || len(received) != len(sent) || len(out.kinds[trace.Received]) == 0 {
		t.Fatalf("%d packets sent, %d received, %d answers", len(sent), len(received), len(out.kinds[trace.Received]))
	}
	for i := range sent {
		if !bytes.Equal(sent[i], received[i]) {
			t.Errorf("packet %d: sent %x, received %x", i, sent[i], received[i])
		}
	}
	if out.bad+in.bad != 0 {
		t.Errorf("%d packets with a wrong ICRC", out.bad+in.bad)
	}
}

func TestLoopbackCountsRefusals(t *testing.T) {
	var l adapter.Loopback
	a, _ := open(t, "127.0.0.1:0", &l)
	b, _ := open(t, "127.0.0.1:0", &l)
	defer a.Dev.Close()
	defer b.Dev.Close()
	must(t, rig.Connect(a.qp, b.qp, rig.Options{MTU: 1024}))
	must(t, rig.PostSend(a.qp, rig.Send{Op: queue.Write, Flags: queue.Signaled, SGEs: []memory.SGE{a.sge(0, 8)},
		Addr: b.mr.Base, RKey: ^b.mr.Key}))
	if c := a.complete(1); len(c) != 1 || c[0].Status != queue.RemAccessErr {
		t.Fatalf("completed as %+v", c)
	}
	if b.Dev.Trace.Counter(reason.KeyInvalid) == 0 && b.Dev.Trace.Counter(reason.KeyUnknown) == 0 {
		t.Error("the refused key was not counted")
	}
}
