package live_test

import (
	"bytes"
	"testing"
	"time"

	"softrdma/internal/fabric/attach"
	"softrdma/internal/fabric/fabrictest"
	"softrdma/internal/link"
)

// twoSwitches is a fabric with two switches between its adapters.
const twoSwitches = "mesh:2,hosts=1"

// take receives n packets and calls f for each.
func take(b *testing.B, p *attach.Port, n int, f func([]byte)) {
	var rx link.Rx
	for got := 0; got < n; {
		ok, err := p.Link().Receive(&rx)
		if err != nil {
			b.Error(err)
			return
		}
		if ok {
			f(rx.Data)
			got += (len(rx.Data) + rx.Size - 1) / rx.Size
			continue
		}
		if err := p.Link().Wait(10 * time.Second); err != nil {
			b.Error(err)
			return
		}
	}
}

// BenchmarkPackets sends packets of a path MTU of 4,096 in batches over two switches.
func BenchmarkPackets(b *testing.B) {
	f := fabrictest.Start(b, twoSwitches)
	from, to := f.Attach(0), f.Attach(1)
	packet := datagram(from, to, 0, 1, 4096)
	const batch = 14
	data := bytes.Repeat(packet, batch)
	tx := link.Tx{Pieces: [][]byte{data}, Bytes: len(data), Size: len(packet)}
	done := make(chan struct{})
	b.SetBytes(4096 * batch)
	b.ResetTimer()
	go func() {
		defer close(done)
		take(b, to, batch*b.N, func([]byte) {})
	}()
	for range b.N {
		for !from.Link().Room(0) {
			_ = from.Link().Wait(time.Second)
		}
		if err := from.Link().Send(&tx); err != nil {
			b.Fatal(err)
		}
	}
	<-done
}

// BenchmarkRoundTrip sends a short packet over two switches, and one back.
func BenchmarkRoundTrip(b *testing.B) {
	f := fabrictest.Start(b, twoSwitches)
	from, to := f.Attach(0), f.Attach(1)
	there, back := datagram(from, to, 0, 1, 8), datagram(to, from, 0, 1, 8)
	send := func(p *attach.Port, d []byte) {
		if err := p.Link().Send(&link.Tx{Pieces: [][]byte{d}, Bytes: len(d), Size: len(d)}); err != nil {
			b.Error(err)
		}
	}
	go take(b, to, b.N, func([]byte) { send(to, back) })
	b.ResetTimer()
	for range b.N {
		send(from, there)
		take(b, from, 1, func([]byte) {})
	}
}
