package ib

import "testing"

func TestSelectiveAckRoundTrips(t *testing.T) {
	b := AppendDuplicates(nil, 0x01020304)
	b = AppendRange(b, 1, 2)
	b = AppendRange(b, 0xffff, 0x8000)
	p := Packet{BTH: BTH{Opcode: RCSelectiveAck, Selective: true, PSN: 0xffffff}, AETH: AETH{Syndrome: ACKNoCredits, MSN: 5}, Payload: b}
	wire := append(p.Append(nil), 0, 0, 0, 0)
	var q Packet
	if f := q.Parse(wire); f != OK || !q.Selective || q.Keep || q.PSN != 0xffffff || q.AETH != p.AETH || q.Opcode.Transport() != RC {
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

// Reserved bits beside A, S, K, C and D are neither read nor sent.
func TestBTHOwnBits(t *testing.T) {
	for v := range 256 {
		b := []byte{byte(RCSendOnly), 0, 0xff, 0xff, 0, 0, 0, 1, byte(v), 0, 0, 1}
		var h BTH
		h.parse(b)
		if h.AckReq != (v&0x80 != 0) || h.Selective != (v&0x40 != 0) || h.Keep != (v&0x20 != 0) || h.Copy != (v&0x10 != 0) || h.Disown != (v&0x08 != 0) {
			t.Fatalf("%#x: %+v", v, h)
		}
		h.put(b)
		if b[8] != byte(v&0xf8) {
			t.Fatalf("%#x is sent as %#x", v, b[8])
		}
	}
}
