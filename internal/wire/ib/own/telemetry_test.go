package own

import (
	"bytes"
	"testing"
)

// FuzzTelemetry parses anything, and builds again what it could parse.
func FuzzTelemetry(f *testing.F) {
	h := Hop{Time: 1 << 40, Bytes: 1 << 50, Queue: 1000, Rate: 100_000}
	f.Add(h.Append(AppendDuplicates(nil, 7)))
	f.Add(h.Append(h.Append(AppendDuplicates(nil, 0))))
	f.Add([]byte{1, 2, 3})
	f.Fuzz(func(t *testing.T, b []byte) {
		n, hops, ok := ParseTelemetry(b)
		if !ok {
			return
		}
		again := AppendDuplicates(nil, n)
		for i := range len(hops) / HopLen {
			h := HopOf(hops, i)
			again = h.Append(again)
		}
		if !bytes.Equal(again, b) {
			t.Errorf("%x became %x", b, again)
		}
	})
}

// Every other length than that of one to MaxHops hops is refused.
func TestTelemetryRefusesOtherLengths(t *testing.T) {
	for n := range TelemetryLen + (MaxHops+2)*HopLen {
		k := n - TelemetryLen
		want := k >= HopLen && k%HopLen == 0 && k <= MaxHops*HopLen
		if _, _, ok := ParseTelemetry(make([]byte, n)); ok != want {
			t.Errorf("%d bytes: %v", n, ok)
		}
	}
}
