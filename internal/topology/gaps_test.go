package topology

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestParseFillsTheGapsOfARealNetwork reads what ibnetdiscover prints for a network in which it
// could not read some nodes and attributes, and whose cables are partly broken.
func TestParseFillsTheGapsOfARealNetwork(t *testing.T) {
	text, err := os.ReadFile("testdata/gaps.txt")
	if err != nil {
		t.Fatal(err)
	}
	f, warnings, err := Parse("net", string(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Check(); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`net:8:5: this end of the link is 4xEDR, that of line 20 is 1xEDR: it becomes 1xEDR`,
		`net:10:5: no node "H-0000000000100009" has a record in this file: port 3 of "S-0000000000200000" is left without a link`,
		`net:12:5: no node "?-000000000010000c" has a record in this file: port 5 of "S-0000000000200000" is left without a link`,
		`net:13:5: the width or speed of the link is unknown at both ends: it becomes 4xEDR`,
		`net:40:1: node	1 "?-000000000010000c"		# "unknown" has an unknown type: it is left out`,
	}
	got := append([]string(nil), warnings...)
	// The record is read before the links are joined.
	got = append(got[1:], got[0])
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for port, link := range map[int]string{1: "1xEDR", 2: "4xHDR", 3: "0xspeed 0", 4: "4xEDR", 5: "0xspeed 0", 6: "4xEDR"} {
		if p := f.Nodes[0].Ports[port]; p.Width.String()+p.Speed.String() != link || p.Connected() != (p.Width != 0) {
			t.Errorf("port %d: %v%v, expected %s", port, p.Width, p.Speed, link)
		}
	}
	if len(f.Nodes) != 5 || f.Nodes[4].Description != "node4 HCA-1" || f.Nodes[4].VendorID != 0x2c9 {
		t.Errorf("%+v", f.Nodes)
	}
}

func TestParseTakesTheSmallerOfTwoSpeeds(t *testing.T) {
	for _, c := range []struct{ a, b, want, warning string }{
		{"s=1", "s=4", "4xSDR", "net:2:5: this end of the link is SDR, that of line 5 is QDR: it becomes 4xSDR"},
		{"w=1", "w=2", "1xEDR", "net:2:5: this end"},
		{"w=3 s=7", "w=2 s=3", "4xDDR", ""}, // as ports negotiate
		{"w=8", "", "12xEDR", ""},
		{"# \"b\" lid 0 4xQDR", "# \"a\" lid 0 ??QDR", "4xQDR", ""},
		{"# \"b\" lid 0 ?????", "# \"a\" lid 0 1x???", "1xEDR", "net:2:5: the width or speed"},
		{"# \"b\" lid 0 4x???", "s=2", "4xDDR", ""},
	} {
		f, warnings, err := Parse("net", "Switch 4 \"a\"\n[1] \"b\"[1] "+c.a+"\n\nSwitch 4 \"b\"\n[1] \"a\"[1] "+c.b+"\n")
		if err != nil {
			t.Errorf("%s, %s: %v", c.a, c.b, err)
			continue
		}
		p := f.Nodes[0].Ports[1]
		if got := p.Width.String() + p.Speed.String(); got != c.want || p.Width != f.Nodes[1].Ports[1].Width {
			t.Errorf("%s, %s: %s, expected %s", c.a, c.b, got, c.want)
		}
		if got := strings.Join(warnings, "\n"); !strings.HasPrefix(got, c.warning) || (got == "") != (c.warning == "") || len(warnings) > 1 {
			t.Errorf("%s, %s: warned %q, expected %q", c.a, c.b, got, c.warning)
		}
	}
}
