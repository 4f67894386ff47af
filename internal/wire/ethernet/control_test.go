package ethernet

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// goldenControls are frames whose bytes are laid out by hand from annexes 31B and 31D of 802.3.
var goldenControls = []struct {
	name string
	c    Control
	hex  string
}{
	{"pause of 65,535 quanta", Control{Src: MAC{2, 0, 0, 0, 0, 1}, Op: OpPause, Enable: 0xff, Quanta: [8]uint16{0xffff, 0xffff, 0xffff, 0xffff, 0xffff, 0xffff, 0xffff, 0xffff}},
		"0180c2000001 020000000001 8808 0001 ffff" + strings.Repeat("00", 42)},
	{"end of a pause", Control{Src: MAC{2, 0, 0, 0, 0, 1}, Op: OpPause, Enable: 0xff},
		"0180c2000001 020000000001 8808 0001 0000" + strings.Repeat("00", 42)},
	{"PFC pauses 3 and ends 4", Control{Src: MAC{2, 0, 0, 0, 0, 9}, Op: OpPFC, Enable: 0x18, Quanta: [8]uint16{3: 0x1234}},
		"0180c2000001 020000000009 8808 0101 0018 0000 0000 0000 1234 0000 0000 0000 0000" + strings.Repeat("00", 26)},
}

func TestControlGolden(t *testing.T) {
	for _, g := range goldenControls {
		want := unhex(t, g.hex)
		if b := g.c.Append(nil); !bytes.Equal(b, want) {
			t.Errorf("%s: %x, expected %x", g.name, b, want)
		}
		var back Control
		if !back.Parse(want) || back != g.c {
			t.Errorf("%s: parsed as %+v, expected %+v", g.name, back, g.c)
		}
		for n := range want {
			if back.Parse(want[:n]) {
				t.Errorf("%s: %d of %d bytes are a frame", g.name, n, len(want))
			}
		}
	}
}

func TestControlIgnoresTimesOfPrioritiesThatAreNotEnabled(t *testing.T) {
	b := (&Control{Op: OpPFC, Enable: 1, Quanta: [8]uint16{7, 8, 9}}).Append(nil)
	b[enableAt] = 0xff // reserved
	var c Control
	if !c.Parse(b) || c.Enable != 1 || c.Quanta != [8]uint16{7} {
		t.Errorf("%+v", c)
	}
}

func TestControlRefusesOtherFrames(t *testing.T) {
	for name, change := range map[string]func(b []byte){
		"another address":   func(b []byte) { b[5] = 2 },
		"another EtherType": func(b []byte) { b[13] = 0 },
		"another operation": func(b []byte) { b[15] = 2 },
	} {
		b := goldenControls[2].c.Append(nil)
		change(b)
		if new(Control).Parse(b) {
			t.Errorf("%s: parsed", name)
		}
	}
}

func FuzzControl(f *testing.F) {
	for _, g := range goldenControls {
		f.Add(unhex(f, g.hex))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var c, again Control
		if !c.Parse(b) {
			return
		}
		if !again.Parse(c.Append(nil)) || again != c {
			t.Errorf("%+v came back as %+v", c, again)
		}
	})
}
