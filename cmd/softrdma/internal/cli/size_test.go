package cli

import "testing"

func TestByteSize(t *testing.T) {
	for in, want := range map[string]int64{
		"0": 0, "1": 1, "4096": 4096, "0x1000": 4096, "64K": 65536, "64k": 65536, "1M": 1 << 20, "2g": 2 << 30, "0x1b": 27,
		"": -1, "K": -1, "-1": -1, "1.5M": -1, "1T": -1, "99999999999999999999": -1, "9999999999G": -1, "1 K": -1, "0xM": -1,
	} {
		var s ByteSize = -1
		err := s.Set(in)
		if int64(s) != want || (err == nil) != (want >= 0) {
			t.Errorf("%q: %d, %v, expected %d", in, s, err, want)
		}
	}
}
