package verbs_test

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"softrdma/internal/adapter"
	"softrdma/internal/iwarp"
	"softrdma/internal/registry"
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

// openFiles returns how many files this process may open, after raising the limit if possible.
func openFiles(t *testing.T, limit int) int {
	t.Helper()
	var x unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &x); err != nil {
		t.Fatal(err)
	}
	want := unix.Rlimit{Cur: max(x.Cur, uint64(limit)), Max: max(x.Max, uint64(limit))}
	if unix.Setrlimit(unix.RLIMIT_NOFILE, &want) == nil { // if the process may raise it
		return limit
	}
	return int(min(x.Max, uint64(limit)))
}

func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A connection costs a descriptor and a little memory at each end, but no goroutine and no
// buffers.
func TestIWARPIdleConnectionsCostTheirSockets(t *testing.T) {
	n := 10_000
	if testing.Short() {
		n = 300
	}
	n = min(n, openFiles(t, 2*n+500)/2-250)
	a, b := openIWARP(t, "127.13.1.16"), openIWARP(t, "127.13.1.17")
	qa, qb := smallQPs(t, a, n), smallQPs(t, b, n)
	events := make(chan adapter.StreamEvent, 4*n)
	handle := func(e *adapter.StreamEvent) { events <- *e }
	l, err := registry.Adapter(b).ListenStream(0, 2*n, handle)
	if err != nil {
		t.Fatal(err)
	}
	before, heap := use(), heapInUse()
	for i := range n {
		if _, err := registry.Adapter(a).Dial(&adapter.DialConfig{Dst: l.Addr(), QPN: qa[i], Params: testParams}, handle); err != nil {
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
	each := int64(heapInUse()-heap) / int64(2*n)
	t.Logf("%d connections: %d bytes of heap each end", n, each)
	if each > 8<<10 {
		t.Errorf("an end costs %d bytes", each)
	}
	if x, _ := registry.Adapter(a).StreamCount(); x != n {
		t.Errorf("%d streams, expected %d", x, n)
	}
}
