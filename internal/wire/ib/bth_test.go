package ib

import "testing"

// Reserved bits beside A, S, K, C, D, W and T are neither read nor sent.
func TestBTHOwnBits(t *testing.T) {
	for v := range 256 {
		b := []byte{byte(RCSendOnly), 0, 0xff, 0xff, 0, 0, 0, 1, byte(v), 0, 0, 1}
		var h BTH
		h.parse(b)
		if h.AckReq != (v&0x80 != 0) || h.Selective != (v&0x40 != 0) || h.Keep != (v&0x20 != 0) || h.Copy != (v&0x10 != 0) || h.Disown != (v&0x08 != 0) || h.Wide != (v&0x04 != 0) || h.Telemetry != (v&0x02 != 0) {
			t.Fatalf("%#x: %+v", v, h)
		}
		h.put(b)
		if b[8] != byte(v&0xfe) {
			t.Fatalf("%#x is sent as %#x", v, b[8])
		}
	}
}
