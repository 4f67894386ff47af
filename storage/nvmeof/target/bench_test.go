package target_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"softrdma/rdmacm"
	"softrdma/storage/block"
	"softrdma/storage/nvmeof/controller"
	"softrdma/storage/nvmeof/host"
	"softrdma/storage/nvmeof/target"
	"softrdma/verbs"
)

// BenchmarkReads reads 4 KiB from memory, with 32 commands in flight on 8 queues.
func BenchmarkReads(b *testing.B) {
	var devices [2]*verbs.Device
	for i := range devices {
		d, err := verbs.Open(ip(i+1), verbs.Config{})
		if err != nil {
			b.Fatal(err)
		}
		defer d.Close()
		devices[i] = d
	}
	g, err := target.New(target.Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer g.Close()
	sub := &controller.Subsystem{NQN: nqn}
	memory, err := block.NewMemory(size, 512)
	if err != nil {
		b.Fatal(err)
	}
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
	c, err := host.Dial(b.Context(), at.String(), host.Config{Subsystem: nqn, Queues: 8, Dialer: rdmacm.Dialer{Device: devices[1]}})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	n, err := c.Namespace(b.Context(), 1)
	if err != nil {
		b.Fatal(err)
	}
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
