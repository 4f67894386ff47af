package compare

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestSVGIsWellFormedAndNamesAll(t *testing.T) {
	p := Plot{Title: "T & <t>", Unit: "GB/s", Ticks: []Tick{{8, "8 B"}, {64, "< & >"}, {4 << 20, "4 MiB"}}, Curves: []Curve{
		{Name: "a <", Points: []Point{{8, .001}, {4 << 20, 9.5}}}, {Name: "b", Points: []Point{{64, 1}}, Dashed: true}, {Name: "c", Points: []Point{{64, 0}}},
	}}
	for _, log := range []bool{true, false} {
		p.Log = log
		s := svg(t, &p)
		for _, want := range []string{"T &amp; &lt;t&gt;, GB/s", "8 B", "&lt; &amp; &gt;", "4 MiB", "a &lt;", "b"} {
			if !strings.Contains(s, ">"+want+"<") {
				t.Errorf("log %v: no %q in %s", log, want, s)
			}
		}
	}
	svg(t, &Plot{Title: "nothing", Log: true})
	svg(t, &Plot{Title: "one", Log: true, Ticks: []Tick{{8, "8 B"}}, Curves: []Curve{{Points: []Point{{8, 1}}}}})
}

func svg(t *testing.T, p *Plot) string {
	t.Helper()
	s, err := p.SVG()
	if err != nil {
		t.Fatal(err)
	}
	checkXML(t, s)
	return s
}

func checkXML(t *testing.T, s string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(s))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%v in %s", err, s)
		}
	}
}

func TestWriteHTMLShowsEveryRow(t *testing.T) {
	table := &Table{Path: "p<", Rounds: 3, Rows: []Row{
		{Name: "good & fast", Ratio: 1, Gate: .5, Stretch: .9, Figure: Figure{Gate: .5, Stretch: .9}},
		{Name: "absent", Missing: "x is not installed"},
	}}
	for _, gates := range []bool{true, false} {
		var b strings.Builder
		if err := WriteHTML(&b, &Origin{Host: "1 Jan"}, gates, []*Table{table}, []Plot{{Title: "plot"}}); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"1 Jan", "p&lt;", "good &amp; fast", "absent", "x is not installed", "<svg"} {
			if !strings.Contains(b.String(), want) {
				t.Errorf("no %q in the page", want)
			}
		}
		for _, of := range []string{">stretch<", ">gate<", "≥ 0.5", ">lowest–highest<"} {
			if strings.Contains(b.String(), of) != gates {
				t.Errorf("gates %v: %q in the page: %v", gates, of, !gates)
			}
		}
	}
}

func TestLossPageShowsEveryRow(t *testing.T) {
	table := &LossTable{
		Rounds: 3, Senders: []string{"a <sender>"}, Missing: []string{"another & why"},
		Rows: []LossRow{{Goodput: []float64{1.26e6}}},
		Shares: []ShareRow{
			{Sender: "flows > one", Flows: 7, Bits: 42e6, Fairness: .5, Peak: 3 << 10, Dropped: 11, Marked: 13},
			{Sender: "absent", Missing: "not installed"},
		},
	}
	var b strings.Builder
	if err := table.WriteHTML(&b, &Origin{}, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"<th>a &lt;sender&gt;, Mbit/s</th>", "<td>1.3</td>", "<td>flows &gt; one, 7 flows</td><td>42</td><td>0.500</td><td>3</td><td>11</td><td>13</td>",
		"missing: not installed", "missing: another &amp; why",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in the page\n%s", want, b.String())
		}
	}
}
