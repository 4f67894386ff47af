package verbs_test

import (
	"runtime"
	"testing"
	"time"

	"softrdma/internal/adapter"
	"softrdma/internal/bridge"
	"softrdma/internal/iwarp"
	"softrdma/verbs"
)

// smallQPs makes queue pairs of one request in INIT.
func smallQPs(t *testing.T, dev *verbs.Device, n int) (list []uint32) {
	t.Helper()
	pd, err := dev.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	cq, err := dev.CreateCQ(verbs.CQConfig{Depth: 16})
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		q, err := pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: cq, MaxSend: 1, MaxRecv: 1, MaxSendSGE: 1, MaxRecvSGE: 1})
		if err != nil {
			t.Fatal(err)
		}
		if err := q.ToInit(verbs.InitAttr{}); err != nil {
			t.Fatal(err)
		}
		list = append(list, q.Number())
	}
	return list
}

func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A connection costs a descriptor and a little memory at each end: no goroutine,
// and no buffers.
func TestIWARPIdleConnectionsCostTheirSockets(t *testing.T) {
	const n = 300
	a, b := openIWARP(t, "127.13.1.16"), openIWARP(t, "127.13.1.17")
	qa, qb := smallQPs(t, a, n), smallQPs(t, b, n)
	events := make(chan adapter.StreamEvent, 4*n)
	handle := func(e *adapter.StreamEvent) { events <- *e }
	l, err := bridge.Device(b).ListenStream(0, 2*n, handle)
	if err != nil {
		t.Fatal(err)
	}
	before, heap := use(), heapInUse()
	for i := range n {
		if _, err := bridge.Device(a).Dial(&adapter.DialConfig{Dst: l.Addr(), QPN: qa[i], Params: testParams}, handle); err != nil {
			t.Fatal(err)
		}
		for established := 0; established < 2; {
			select {
			case e := <-events:
				switch e.Kind {
				case iwarp.Requested:
					if err := e.On.Accept(qb[i], &testParams); err != nil {
						t.Fatal(err)
					}
				case iwarp.Established:
					established++
				default:
					t.Fatalf("event %d: %v", e.Kind, e.Detail)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("no connection")
			}
		}
	}
	after := use()
	if after.goroutines > before.goroutines || after.descriptors > before.descriptors+2*n {
		t.Errorf("%d connections: %+v became %+v", n, before, after)
	}
	// Measured: 2.7 KB.
	if each := int64(heapInUse()-heap) / (2 * n); each > 8<<10 {
		t.Errorf("an end costs %d bytes", each)
	}
	if x, _ := bridge.Device(a).StreamCount(); x != n {
		t.Errorf("%d streams, expected %d", x, n)
	}
}
