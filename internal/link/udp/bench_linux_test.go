//go:build linux && !softrdma_portable

package udp

import (
	"testing"

	"softrdma/internal/link"
)

func BenchmarkBatch15x4096(b *testing.B) { benchmarkBatch(b, "127.0.0.1", 15, 4096, 3) }

func BenchmarkBatch15x4096IPv6(b *testing.B) { benchmarkBatch(b, "::1", 15, 4096, 3) }

func BenchmarkBatch62x1024(b *testing.B) { benchmarkBatch(b, "127.0.0.1", 62, 1024, 3) }

func BenchmarkBatch128x64(b *testing.B) { benchmarkBatch(b, "127.0.0.1", 128, 64, 1) }

// benchmarkBatch sends and receives batches on one goroutine, with the given number of pieces
// per packet.
func benchmarkBatch(b *testing.B, host string, packets, size, pieces int) {
	x, y := pair(b, host, Config{})
	f := openFlow(b, x, y.Local(), 7)
	data := pattern(packets * size)
	tx := link.Tx{Flow: &f.Flow, Bytes: len(data), Size: size}
	for i := range packets {
		p := data[i*size : (i+1)*size]
		for j := range pieces {
			tx.Pieces = append(tx.Pieces, p[j*len(p)/pieces:(j+1)*len(p)/pieces])
		}
	}
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	var rx link.Rx
	for b.Loop() {
		send(b, x, &tx)
		for got := 0; got < len(data); got += len(rx.Data) {
			if ok, err := y.Receive(&rx); !ok || err != nil {
				b.Fatal(ok, err)
			}
		}
	}
}

func BenchmarkPingPong64(b *testing.B) { benchmarkPingPong(b, "127.0.0.1", false) }

func BenchmarkPingPong64IPv6(b *testing.B) { benchmarkPingPong(b, "::1", false) }

func BenchmarkPingPong64ChangingTOS(b *testing.B) { benchmarkPingPong(b, "127.0.0.1", true) }

func benchmarkPingPong(b *testing.B, host string, change bool) {
	x, y := pair(b, host, Config{})
	data := pattern(64)
	there := link.Tx{Flow: &openFlow(b, x, y.Local(), 7).Flow, Pieces: [][]byte{data[:20], data[20:]}, Bytes: 64, Size: 64}
	back := there
	back.Flow = &openFlow(b, y, x.Local(), 7).Flow
	b.ReportAllocs()
	var rx link.Rx
	for b.Loop() {
		if change {
			there.TOS ^= 2
		}
		send(b, x, &there)
		if ok, err := y.Receive(&rx); !ok || err != nil {
			b.Fatal(ok, err)
		}
		send(b, y, &back)
		if ok, err := x.Receive(&rx); !ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}

func BenchmarkReceiveEmpty(b *testing.B) {
	x, _ := pair(b, "127.0.0.1", Config{})
	var rx link.Rx
	b.ReportAllocs()
	for b.Loop() {
		if ok, err := x.Receive(&rx); ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}
