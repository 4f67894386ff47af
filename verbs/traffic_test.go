package verbs_test

import (
	"testing"

	"softrdma/verbs"
)

// The bytes of a WRITE with many packets and of a READ are counted at both ends.
func TestTrafficCountsPayloadAtBothEnds(t *testing.T) {
	const wrote, read = 40_000, 5_000
	a, b := pair(t, 1<<16, verbs.RC)
	a.post(t, a.write(0, wrote))
	a.ok(t, verbs.WCWrite)
	get := a.write(0, read)
	get.Op = verbs.OpRead
	a.post(t, get)
	a.ok(t, verbs.WCRead)
	for _, x := range []struct {
		dev            *verbs.Device
		sent, received uint64
	}{{a.dev, wrote, read}, {b.dev, read, wrote}} {
		sent, received := x.dev.Traffic()
		if sent < x.sent || received != x.received { // lost packets are retransmitted
			t.Errorf("%s: %d bytes sent and %d received, expected %d and %d", x.dev.Addr(), sent, received, x.sent, x.received)
		}
	}
}
