package verbs_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"unsafe"

	"softrdma/verbs"
)

// A benchEnd is one end of a connected queue pair with a region of memory.
type benchEnd struct {
	dev    *verbs.Device
	cq     *verbs.CQ
	qp     *verbs.QP
	mr     *verbs.MR
	mem    []byte
	local  verbs.Endpoint
	remote benchMemory
	wcs    [32]verbs.WC
}

type benchMemory struct {
	Addr uint64
	RKey uint32
}

const (
	benchSlot  = 1 << 20
	benchDepth = 16
	benchBytes = 2 * benchSlot // source and target
)

// benchAddr returns a loopback address that is unlikely to be in use.
func benchAddr() string {
	return fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(250), rand.IntN(250), 1+rand.IntN(250))
}

func newBenchEnd(tb testing.TB, addr string, cfg verbs.Config) *benchEnd {
	tb.Helper()
	dev, err := verbs.Open(addr, cfg)
	if err != nil {
		tb.Skipf("benchmark device: %v", err)
	}
	tb.Cleanup(func() { dev.Close() })
	must := func(err error) {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
	}
	e := &benchEnd{dev: dev}
	pd, err := dev.AllocPD()
	must(err)
	m, err := verbs.AllocMemory(benchBytes, verbs.AllocConfig{})
	must(err)
	e.mem = m.Bytes()
	clear(e.mem)
	e.mr, err = pd.RegisterMemory(e.mem, verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead|verbs.RemoteAtomic)
	must(err)
	e.cq, err = dev.CreateCQ(verbs.CQConfig{})
	must(err)
	e.qp, err = pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: e.cq, MaxInline: 64})
	must(err)
	e.local = e.qp.Endpoint()
	return e
}

func (e *benchEnd) memory() benchMemory { return benchMemory{e.mr.Addr(), e.mr.RKey()} }

func (e *benchEnd) connect(tb testing.TB, peer verbs.Endpoint, m benchMemory) {
	tb.Helper()
	e.remote = m
	if err := e.qp.Connect(e.local, peer, verbs.ConnectConfig{}); err != nil {
		tb.Fatal(err)
	}
}

// benchConfigs are the paths of packets between two devices of this process.
var benchConfigs = map[string]verbs.Config{"sockets": {NoLoopback: true}, "memory": {}}

// benchPair is two devices in this process.
func benchPair(tb testing.TB, cfg verbs.Config) (a, b *benchEnd) {
	a, b = newBenchEnd(tb, benchAddr(), cfg), newBenchEnd(tb, benchAddr(), cfg)
	a.connect(tb, b.local, b.memory())
	b.connect(tb, a.local, a.memory())
	return a, b
}

// poll polls completions and returns their number.
func (e *benchEnd) poll(tb testing.TB) int {
	n, err := e.cq.Poll(e.wcs[:])
	if err != nil {
		tb.Fatal(err)
	}
	for i := range e.wcs[:n] {
		if e.wcs[i].Status != verbs.Success {
			tb.Fatal(e.wcs[i].Err())
		}
	}
	return n
}

// request returns a WRITE of n bytes from the end's source to the peer's target.
func (e *benchEnd) request(n int) verbs.SendWR {
	return verbs.SendWR{
		Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{e.mr.SGE(0, n)},
		RemoteAddr: e.remote.Addr + benchSlot, RKey: e.remote.RKey,
	}
}

// stream sends count messages of 1 MiB with several in flight.
func (e *benchEnd) stream(tb testing.TB, count int) {
	wrs := []verbs.SendWR{e.request(benchSlot)}
	for posted, done := 0, 0; done < count; {
		for posted < count && posted-done < benchDepth {
			if err := e.qp.PostSend(wrs...); err != nil {
				tb.Fatal(err)
			}
			posted++
		}
		done += e.poll(tb)
	}
}

// arrived reads the last word of the target, which the peer writes.
func (e *benchEnd) arrived() uint32 {
	return atomic.LoadUint32((*uint32)(unsafe.Pointer(&e.mem[benchSlot+4])))
}

// pingPong writes 8 bytes back and forth; they contain a counter to detect arrival.
func (e *benchEnd) pingPong(tb testing.TB, count int, first bool) {
	wrs := []verbs.SendWR{e.request(8)}
	wrs[0].SGL, wrs[0].Inline = nil, e.mem[:8]
	word := (*uint32)(unsafe.Pointer(&e.mem[4]))
	sent, done := 0, 0
	post := func(i int) {
		*word = uint32(i)
		wrs[0].Flags = 0
		if i%16 == 0 || i == count {
			wrs[0].Flags = verbs.Signaled
			sent++
		}
		if err := e.qp.PostSend(wrs...); err != nil {
			tb.Fatal(err)
		}
	}
	for i := 1; i <= count; i++ {
		if first {
			post(i)
		}
		for e.arrived() != uint32(i) {
			done += e.poll(tb)
		}
		if !first {
			post(i)
		}
	}
	for done < sent {
		done += e.poll(tb)
	}
}

func BenchmarkPostSendPoll(b *testing.B) {
	for name, cfg := range benchConfigs {
		b.Run(name, func(b *testing.B) { benchmarkPostSendPoll(b, cfg) })
	}
}

func benchmarkPostSendPoll(b *testing.B, cfg verbs.Config) {
	e, _ := benchPair(b, cfg)
	wrs := []verbs.SendWR{e.request(8)}
	b.ReportAllocs()
	for b.Loop() {
		if err := e.qp.PostSend(wrs...); err != nil {
			b.Fatal(err)
		}
		for e.poll(b) == 0 {
		}
	}
}

func TestPostSendAndPollDoNotAllocate(t *testing.T) {
	for name, cfg := range benchConfigs {
		t.Run(name, func(t *testing.T) { testDoNotAllocate(t, cfg) })
	}
}

func testDoNotAllocate(t *testing.T, cfg verbs.Config) {
	e, _ := benchPair(t, cfg)
	wrs := []verbs.SendWR{e.request(8)}
	once := func() {
		if err := e.qp.PostSend(wrs...); err != nil {
			t.Fatal(err)
		}
		for e.poll(t) == 0 {
			runtime.Gosched() // AllocsPerRun leaves one processor, which the peer's device needs as well
		}
	}
	once()
	// AllocsPerRun rounds down: occasional allocations of the runtime do not count.
	if n := testing.AllocsPerRun(1000, once); n != 0 {
		t.Fatalf("a WRITE from posting to completion: expected no allocation, found %v", n)
	}
}

func BenchmarkWrite1MiB(b *testing.B) {
	for name, cfg := range benchConfigs {
		b.Run(name, func(b *testing.B) {
			e, _ := benchPair(b, cfg)
			b.SetBytes(benchSlot)
			b.ResetTimer()
			e.stream(b, b.N)
		})
	}
}

func BenchmarkWrite8BHalfRoundTrip(b *testing.B) {
	for name, cfg := range benchConfigs {
		b.Run(name, func(b *testing.B) { benchmarkHalfRoundTrip(b, cfg) })
	}
}

func benchmarkHalfRoundTrip(b *testing.B, cfg verbs.Config) {
	e, f := benchPair(b, cfg)
	done := make(chan struct{})
	b.ResetTimer()
	go func() {
		defer close(done)
		f.pingPong(b, b.N, false)
	}()
	e.pingPong(b, b.N, true)
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/2, "ns/half")
	<-done
}
