package comparison

import (
	"flag"
	"os"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table to docs/protocols.md")

// Where the table is.
const (
	document = "../../../docs/protocols.md"
	opening  = "<!-- Written by: go test -run TestTable ./internal/simnet/comparison -update -timeout 1h -->\n"
	closing  = "<!-- End of the table. -->\n"
)

// cut returns the document before the table, the table, and the text after it.
func cut(t *testing.T) (before, table, after string) {
	t.Helper()
	b, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(b), opening)
	table, after, ok2 := strings.Cut(rest, closing)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table", document)
	}
	return before, table, after
}

// TestTable repeats the quick rows of the comparison. The document's figures must be about
// right: after a change of retransmission or congestion control, write the table again.
func TestTable(t *testing.T) {
	before, table, after := cut(t)
	lines := map[string]string{}
	for line := range strings.Lines(table) {
		if cells := strings.SplitN(line, " | ", 4); len(cells) == 4 {
			lines[strings.Join(cells[:3], " | ")] = line
		}
	}
	text := "\n" + Header
	for _, r := range Rows() {
		if !*update && long(&r) {
			continue
		}
		x, err := r.Run()
		if err != nil {
			t.Fatal(err)
		}
		line := r.Line(&x)
		t.Log(strings.TrimSpace(line))
		text += line
		if *update {
			continue
		}
		stands, ok := lines["| "+r.name()]
		if !ok {
			t.Errorf("%s is not in the table", r.name())
			continue
		}
		compare(t, stands, line)
		check(t, &r, &x)
	}
	if *update {
		if err := os.WriteFile(document, []byte(before+opening+text+"\n"+closing+after), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// long reports whether a row takes too long to be run each time. With the race detector an incast takes a minute.
func long(r *Row) bool {
	switch r.Load.Name {
	case "none":
		return testing.Short() && r.Protocol != InfiniBand && r.Protocol != Resilient && r.Protocol != IWARP
	case "incast":
		return testing.Short() || r.Params.Loss > 0 && r.Protocol != RoCEPFC && r.Protocol != Resilient
	}
	return true
}

// compare compares the figures of two lines. They may differ by a third, or by a small amount.
func compare(t *testing.T, stands, found string) {
	t.Helper()
	a, b := strings.Split(stands, " | "), strings.Split(found, " | ")
	if len(a) != len(b) {
		t.Fatalf("%q, expected the cells of %q", stands, found)
	}
	little := []float64{3: .2, 4: .5, 5: .2, 6: 1, 7: 1, 8: .05, 9: 100, 10: 100}
	for i := 3; i < len(a); i++ {
		x, y := figure(t, a[i]), figure(t, b[i])
		if d := max(x-y, y-x); d > max(x, y)/3 && d > little[i] {
			t.Errorf("the document has\n%sexpected\n%s", stands, found)
			return
		}
	}
}

// figure returns the number in a cell, or 0.
func figure(t *testing.T, cell string) (x float64) {
	t.Helper()
	if f := strings.Fields(strings.Trim(cell, "| \n")); len(f) > 0 {
		var err error
		if x, err = strconv.ParseFloat(f[0], 64); err != nil {
			t.Fatal(err)
		}
	}
	return x
}

// check checks the document's statements about the protocols.
func check(t *testing.T, r *Row, x *Result) {
	t.Helper()
	if (r.Protocol == InfiniBand || r.Protocol.pfc()) && x.Drops > 0 {
		t.Errorf("%s: credits and pauses lose nothing, but %d packets were dropped", r.name(), x.Drops)
	}
	if !r.Protocol.pfc() && x.Pauses > 0 {
		t.Errorf("%s: %d pauses", r.name(), x.Pauses)
	}
	if r.Load.Name == "incast" && x.Rate < .8*float64(r.Params.Bandwidth) {
		t.Errorf("%s: %.1f Gb/s of a link of %.1f", r.name(), x.Rate/1e9, float64(r.Params.Bandwidth)/1e9)
	}
}
