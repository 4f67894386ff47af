package own

import (
	"testing"

	"softrdma/internal/wire/ib"
)

func TestSelectiveAckRoundTrips(t *testing.T) {
	b := AppendDuplicates(nil, 0x01020304)
	b = AppendRange(b, 1, 2)
	b = AppendRange(b, 0xffff, 0x8000)
	p := ib.Packet{BTH: ib.BTH{Opcode: ib.RCSelectiveAck, Selective: true, PSN: 0xffffff}, AETH: ib.AETH{Syndrome: ib.ACKNoCredits, MSN: 5}, Payload: b}
	wire := append(p.Append(nil), 0, 0, 0, 0)
	var q ib.Packet
	if f := q.Parse(wire); f != ib.OK || !q.Selective || q.Keep || q.PSN != 0xffffff || q.AETH != p.AETH || q.Opcode.Transport() != ib.RC {
		t.Fatalf("fault %d, %+v", f, q)
	}
	n, ok := Duplicates(q.Payload)
	if !ok || n != 0x01020304 || Ranges(q.Payload) != 2 {
		t.Fatalf("%d duplicates, %v, %d ranges", n, ok, Ranges(q.Payload))
	}
	for i, want := range [][2]uint32{{1, 2}, {0xffff, 0x8000}} {
		if s, c := Range(q.Payload, i); s != want[0] || c != want[1] {
			t.Errorf("range %d is %d, %d, expected %v", i, s, c, want)
		}
	}
}

func TestSelectiveAckOfWrongLengthRefused(t *testing.T) {
	for n := range SelectiveAckLen + (MaxRanges+2)*RangeLen {
		want := n >= SelectiveAckLen && n%RangeLen == 0 && n <= SelectiveAckLen+MaxRanges*RangeLen
		if _, ok := Duplicates(make([]byte, n)); ok != want {
			t.Errorf("%d bytes: %v", n, ok)
		}
	}
}
