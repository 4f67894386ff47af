package mad

import "testing"

func TestAcceptableMTUIsReadFromEitherNibble(t *testing.T) {
	for _, c := range []struct {
		name string
		ari  []byte
		want int
	}{
		{"as a REQ has it", []byte{0x30}, 1024},
		{"in the lower bits", []byte{0x03}, 1024},
		{"both: as a REQ has it", []byte{0x25}, 512},
		{"none", nil, 0},
		{"zero", []byte{0}, 0},
		{"reserved", []byte{0x60}, 0},
		{"longer than it needs to be", []byte{0x40, 0xff, 0xff}, 2048},
	} {
		if got := AcceptableMTU(c.ari).Bytes(); got != c.want {
			t.Errorf("%s: found %d, expected %d", c.name, got, c.want)
		}
	}
}
