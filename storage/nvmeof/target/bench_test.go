package target_test

import (
	"bytes"
	"sync"
	"sync/atomic"
	"testing"

	"softrdma/rdmacm"
	"softrdma/storage/nvmeof/controller"
	"softrdma/storage/nvmeof/host"
	"softrdma/storage/nvmeof/target"
	"softrdma/verbs"
)

// benchmarkDisk serves memory to a host in this process.
func benchmarkDisk(b *testing.B, queues int) *host.Namespace {
	b.Helper()
	memory := newMemory(b)
	if _, err := memory.WriteAt(bytes.Repeat([]byte{7}, size), 0); err != nil {
		b.Fatal(err)
	}
	var devices [2]*verbs.Device
	for i := range devices {
		d, err := verbs.Open(ip(i+1), verbs.Config{})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { d.Close() })
		devices[i] = d
	}
	g, err := target.New(target.Config{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := g.Close(); err != nil {
			b.Error(err)
		}
	})
	sub := &controller.Subsystem{NQN: nqn}
	if err := g.AddSubsystem(sub); err != nil {
		b.Fatal(err)
	}
	if err := g.AddNamespace(sub, 1, memory, false); err != nil {
		b.Fatal(err)
	}
	at, err := g.Listen(ip(1)+":0", rdmacm.ListenConfig{Device: devices[0]})
	if err != nil {
		b.Fatal(err)
	}
	c, err := host.Dial(b.Context(), at.String(), host.Config{Subsystem: nqn, Queues: queues, Dialer: rdmacm.Dialer{Device: devices[1]}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	n, err := c.Namespace(b.Context(), 1)
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// BenchmarkReads reads 4 KiB from memory, with 32 commands in flight on 8 queues.
func BenchmarkReads(b *testing.B) {
	n := benchmarkDisk(b, 8)
	b.SetBytes(4096)
	b.ReportAllocs()
	var next atomic.Int64
	var work sync.WaitGroup
	b.ResetTimer()
	for range 32 {
		work.Go(func() {
			data := make([]byte, 4096)
			for next.Add(1) <= int64(b.N) {
				if _, err := n.ReadAt(data, next.Load()%(size/4096)*4096); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	work.Wait()
}

// BenchmarkRequests reads and writes memory with 32 requests in flight on one queue. Neither end allocates for
// a request.
func BenchmarkRequests(b *testing.B) {
	for _, c := range []struct {
		name  string
		write bool
		size  int
	}{{"read/4K", false, 4096}, {"write/4K", true, 4096}, {"read/128K", false, 128 << 10}, {"write/128K", true, 128 << 10}} {
		b.Run(c.name, func(b *testing.B) {
			const depth = 32
			n := benchmarkDisk(b, 1)
			memory, err := n.Alloc(depth * c.size)
			if err != nil {
				b.Fatal(err)
			}
			defer memory.Free()
			var next atomic.Int64
			var work sync.WaitGroup
			begin := func(r *host.Request) {
				i := next.Add(1)
				if i > int64(b.N) || r.Err != nil {
					if r.Err != nil {
						b.Error(r.Err)
					}
					work.Done()
					return
				}
				r.Offset = i % int64(size/c.size) * int64(c.size)
				if err := n.Submit(r); err != nil {
					b.Error(err)
					work.Done()
				}
			}
			requests := make([]host.Request, depth)
			b.SetBytes(int64(c.size))
			b.ReportAllocs()
			b.ResetTimer()
			for i := range requests {
				r := &requests[i]
				r.Write, r.Data, r.Done = c.write, memory.Bytes()[i*c.size:][:c.size], begin
				work.Add(1)
				begin(r)
			}
			work.Wait()
			b.StopTimer()
		})
	}
}
