package own

import (
	"bytes"
	"testing"

	"softrdma/internal/wire/ib"
)

func TestReasonRoundTrips(t *testing.T) {
	want := Reason{Number: 0x01020304, Expected: 1<<63 + 5, Found: 0xa1a2a3a4a5a6a7a8}
	payload := want.Append(nil)
	p := ib.Packet{BTH: ib.BTH{Opcode: ib.RCReason, Selective: true, PSN: 0xffffff}, AETH: ib.AETH{Syndrome: ib.NAKRemoteAccess, MSN: 5}, Payload: payload}
	var q ib.Packet
	if f := q.Parse(append(p.Append(nil), 0, 0, 0, 0)); f != ib.OK {
		t.Fatal(f)
	}
	got, ok := ParseReason(q.Payload)
	if !ok || got != want || q.AETH != p.AETH || q.PSN != p.PSN || q.Opcode.Transport() != ib.RC {
		t.Errorf("found %+v %v in %v", got, ok, &q)
	}
}

// A reason of a later version is longer, and the rest is ignored.
func TestReasonOfWrongLengthRefused(t *testing.T) {
	b := bytes.Repeat([]byte{7}, MaxReasonLen+8)
	for n := range b {
		r, ok := ParseReason(b[:n])
		if want := n >= ReasonLen && n <= MaxReasonLen; ok != want || ok && r.Number != 0x07070707 || !ok && r != (Reason{}) {
			t.Errorf("%d bytes: found %+v, %v", n, r, ok)
		}
	}
}

func FuzzParseReason(f *testing.F) {
	f.Add((&Reason{Number: 144, Expected: 2, Found: 1}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, ok := ParseReason(b); ok && !bytes.Equal(r.Append(nil), b[:ReasonLen]) {
			t.Errorf("%x read as %+v", b, r)
		}
	})
}
