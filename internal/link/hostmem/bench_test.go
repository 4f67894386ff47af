package hostmem

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// writeHeader is the size of the headers of a WRITE: BTH and RETH.
const writeHeader = 12 + 16

// BenchmarkMessage measures both ends of a WRITE of 8 bytes in one goroutine, with all lines
// in its processor's cache. It reports the average and the fastest of many batches.
func BenchmarkMessage(b *testing.B) {
	s, r := newRing(b)
	h, header, pieces := Head{Port: 0xc000}, make([]byte, writeHeader), [][]byte{make([]byte, 8)}
	var m Received
	quickOut, quickIn := time.Hour, time.Hour
	const batch = slots / 2
	b.ReportAllocs()
	for range (b.N + batch - 1) / batch {
		start := time.Now()
		for range batch {
			if !s.Copy(&h, header, pieces, 8) {
				b.Fatal("no room")
			}
		}
		middle := time.Now()
		for range batch {
			if ok, _ := r.Next(&m); !ok {
				b.Fatal("no message")
			}
			r.Release()
		}
		quickOut, quickIn = min(quickOut, middle.Sub(start)), min(quickIn, time.Since(middle))
	}
	b.ReportMetric(float64(quickOut)/batch, "ns/copy")
	b.ReportMetric(float64(quickIn)/batch, "ns/next+release")
}

// BenchmarkPingPong measures two WRITEs of 8 bytes, one in each direction, between two polling
// threads.
func BenchmarkPingPong(b *testing.B) {
	there, here := newRing(b)
	back, home := newRing(b)
	n := b.N
	go func() {
		runtime.LockOSThread()
		bounce(here, back, n)
	}()
	h, header, pieces := Head{Port: 0xc000}, make([]byte, writeHeader), [][]byte{make([]byte, 8)}
	b.ResetTimer()
	for range n {
		there.Copy(&h, header, pieces, 8)
		await(home)
	}
	b.ReportMetric(float64(b.Elapsed())/float64(2*n), "ns/oneway")
}

// BenchmarkCacheLine does the same with a number in memory, which is the lower bound.
func BenchmarkCacheLine(b *testing.B) {
	var lines [3 * 16]atomic.Uint64 // two words in separate lines
	there, back := &lines[16], &lines[32]
	n := uint64(b.N)
	go func() {
		runtime.LockOSThread()
		for i := uint64(1); i <= n; i++ {
			awaitNumber(there, i)
			back.Store(i)
		}
	}()
	b.ResetTimer()
	for i := uint64(1); i <= n; i++ {
		there.Store(i)
		awaitNumber(back, i)
	}
	b.ReportMetric(float64(b.Elapsed())/float64(2*n), "ns/oneway")
}

func awaitNumber(w *atomic.Uint64, n uint64) {
	for spins := 0; w.Load() != n; spins++ {
		if spins > 1<<14 {
			runtime.Gosched()
		}
	}
}

// bounce answers n messages.
func bounce(in *Receiver, out *Sender, n int) {
	h, header, pieces := Head{Port: 0xc000}, make([]byte, writeHeader), [][]byte{make([]byte, 8)}
	for range n {
		await(in)
		out.Copy(&h, header, pieces, 8)
	}
}

// await polls for a message and takes it.
func await(r *Receiver) {
	var m Received
	for spins := 0; ; spins++ {
		if ok, _ := r.Next(&m); ok {
			r.Release()
			return
		}
		if spins > 1<<14 {
			runtime.Gosched()
		}
	}
}

// BenchmarkStream measures messages at full speed from one thread to another, which copies
// their payload out.
func BenchmarkStream(b *testing.B) {
	for _, n := range []int{8, 1024, 4096, 16384, InlineMax} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s, r := newRing(b)
			done := make(chan struct{})
			go func() {
				runtime.LockOSThread()
				drain(r, b.N, n)
				close(done)
			}()
			h, header, pieces := Head{Port: 0xc000}, make([]byte, writeHeader), [][]byte{pattern(1, n)}
			b.SetBytes(int64(n))
			b.ResetTimer()
			for range b.N {
				for !s.Copy(&h, header, pieces, n) {
					runtime.Gosched()
				}
			}
			<-done
		})
	}
}

// drain takes messages of n bytes and copies their payload out.
func drain(r *Receiver, messages, n int) {
	var m Received
	to := make([]byte, n)
	for range messages {
		for {
			if ok, _ := r.Next(&m); ok {
				break
			}
			runtime.Gosched()
		}
		copy(to, m.Payload)
		r.Release()
	}
}
