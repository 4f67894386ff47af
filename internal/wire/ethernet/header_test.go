package ethernet

import (
	"bytes"
	"encoding/hex"
	"testing"
)

func TestEthernetHeaderGolden(t *testing.T) {
	for _, c := range []struct {
		name string
		h    Header
		hex  string
	}{
		{"untagged", Header{Dst: MAC{1, 2, 3, 4, 5, 6}, Src: MAC{7, 8, 9, 10, 11, 12}, Type: TypeRoCE}, "010203040506" + "0708090a0b0c" + "8915"},
		{"VLAN 100 with priority 5", Header{Dst: MAC{1, 2, 3, 4, 5, 6}, Src: MAC{7, 8, 9, 10, 11, 12}, Tagged: true, Tag: NewTag(100, 5), Type: TypeRoCE},
			"010203040506" + "0708090a0b0c" + "8100" + "a064" + "8915"},
	} {
		want, _ := hex.DecodeString(c.hex)
		var b [HeaderLen + TagLen]byte
		if n := c.h.Put(b[:]); !bytes.Equal(b[:n], want) {
			t.Errorf("%s: %x, expected %x", c.name, b[:n], want)
		}
		var back Header
		if n := back.Parse(want); n != len(want) || back != c.h {
			t.Errorf("%s: parsed %d bytes as %+v, expected %+v", c.name, n, back, c.h)
		}
		for n := range want {
			if k := back.Parse(want[:n]); k != 0 {
				t.Errorf("%s: %d of %d bytes hold a header of %d", c.name, n, len(want), k)
			}
		}
	}
	if tag := NewTag(4095, 7); tag.VLAN() != 4095 || tag.Priority() != 7 {
		t.Errorf("tag %#x: VLAN %d, priority %d", uint16(tag), tag.VLAN(), tag.Priority())
	}
}
