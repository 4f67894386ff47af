package compare

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestSVGIsWellFormedAndWithinBounds(t *testing.T) {
	p := Plot{Title: "T & <t>", Unit: "GB/s", Log: true, Ticks: []Tick{{8, "8 B"}, {64, "< & >"}, {4 << 20, "4 MiB"}}, Curves: []Curve{
		{Name: "a", Points: []Point{{8, .001}, {4 << 20, 9.5}}}, {Name: "b", Points: []Point{{64, 1}}, Dashed: true},
	}}
	for _, log := range []bool{true, false} {
		p.Log = log
		checkXML(t, p.SVG())
		a := p.axes()
		for _, c := range p.Curves {
			for _, q := range c.Points {
				if x, y := p.x(q.X), a.y(q.Value); x < left || x > plotWidth-right || y < top || y > base {
					t.Errorf("log %v: point %+v at %v, %v is outside of the axes", log, q, x, y)
				}
			}
		}
	}
	empty := Plot{Title: "nothing"}
	checkXML(t, empty.SVG())
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
	var b strings.Builder
	if err := WriteHTML(&b, &Origin{Host: "1 Jan"}, []*Table{table}, []Plot{{Title: "plot"}}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1 Jan", "p&lt;", "good &amp; fast", "stretch", "absent", "x is not installed", "<svg"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in the page", want)
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
	if err := table.WriteHTML(&b, &Origin{}); err != nil {
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
