package recorder

import (
	"testing"
	"time"

	"softrdma/internal/psn"
	"softrdma/internal/wire/ib"
)

// Packets that continue a run, and packets that each begin one.
func BenchmarkPacket(b *testing.B) {
	for name, step := range map[string]int{"continued": 1, "new": 2} {
		b.Run(name, func(b *testing.B) {
			var r Recorder
			p := packet(ib.RCWriteOnly, 0)
			for i := range b.N {
				p.PSN = psn.New(uint32(i * step))
				r.Packet(Sent, time.Duration(i), 5, p, 8, 1)
			}
		})
	}
}
