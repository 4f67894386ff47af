package hosts

import (
	"testing"

	"softrdma/internal/congestion"
	"softrdma/internal/fabric/bridge"
	"softrdma/internal/fabric/dcb"
	"softrdma/internal/fabric/lan"
)

// BenchmarkPermutation reports packets of messages that a processor carries in a second, each over
// five switches, with acknowledges and congestion control.
func BenchmarkPermutation(b *testing.B) {
	for _, kind := range []congestion.Kind{congestion.None, congestion.DCQCN} {
		b.Run(kind.String(), func(b *testing.B) {
			c := lan.Config{Seed: 1, Switch: bridge.Config{Buffer: bridge.BufferConfig{Size: 2 << 20}}}
			c.Link.Port.Pause, c.Link.Port.Lossless = dcb.ByClass, 1<<3
			c.Switch.Marking[3] = bridge.Marking{Min: 40 << 10, Max: 160 << 10, Most: 0.2}
			w := newWorld(b, "fat-tree:k=8", c)
			n := w.Nodes()
			for i := range n {
				w.Connect(0, n[i], n[(i+len(n)/2)%len(n)], 1, &Sender{Control: kind, Priority: 3}).Post(0, 0, 1<<30)
			}
			w.Run(200 * dcb.Microsecond)
			b.ReportAllocs()
			b.ResetTimer()
			first, events := w.Traffic(), w.Network().Events()
			for n := uint64(b.N); (w.Traffic().Received-first.Received)/DefaultMTU < n; {
				w.Run(w.Network().Now() + dcb.Microsecond)
			}
			s := b.Elapsed().Seconds()
			b.ReportMetric(float64(w.Traffic().Received-first.Received)/DefaultMTU/s, "packets/s")
			b.ReportMetric(float64(w.Network().Events()-events)/s, "events/s")
		})
	}
}
