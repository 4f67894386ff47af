package own

import (
	"bytes"
	"testing"

	"softrdma/internal/wire/ib"
)

func TestPathProbeRoundTrips(t *testing.T) {
	want := PathProbe{Kind: Answer, Token: 0xa1a2a3a4, MTU: 4096}
	p := ib.Packet{BTH: ib.BTH{Opcode: ib.RCPathProbe, Selective: true, PSN: 7}, Payload: append(want.Append(nil), make([]byte, 100)...)}
	var q ib.Packet
	if f := q.Parse(append(p.Append(nil), 0, 0, 0, 0)); f != ib.OK || q.Opcode.Transport() != ib.RC || q.PSN != 7 {
		t.Fatalf("fault %v, %+v", f, q)
	}
	if got, ok := ParsePathProbe(q.Payload); !ok || got != want {
		t.Errorf("found %+v, %v", got, ok)
	}
}

func FuzzParsePathProbe(f *testing.F) {
	f.Add((&PathProbe{Kind: Probe, Token: 1, MTU: 1024}).Append(nil))
	f.Add(make([]byte, PathProbeLen-1))
	f.Add(make([]byte, PathProbeLen))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, ok := ParsePathProbe(b)
		if !ok {
			return
		}
		if again, ok := ParsePathProbe(p.Append(nil)); !ok || again != p || !bytes.Equal(p.Append(nil)[4:], b[4:PathProbeLen]) {
			t.Errorf("%x read as %+v", b, p)
		}
	})
}
