package simulate

import (
	"bytes"
	_ "embed"
	"html/template"
	"strings"

	"softrdma/internal/simulate"
	"softrdma/internal/simulate/scenario"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// A page is what the template shows.
type page struct {
	Title, About, Where string
	Tables              []*table
	Plots               []template.HTML
	Papers              []scenario.Paper
}

// html returns a summary as one self-contained page with plots.
func html(s *scenario.Scenario, x *simulate.Summary) ([]byte, error) {
	p := page{Title: x.Title, About: strings.TrimSpace(s.About), Where: where(x), Tables: tables(x), Papers: x.Papers}
	for _, c := range plots(s, x) {
		if len(c.curves) > 0 {
			p.Plots = append(p.Plots, c.svg())
		}
	}
	var b bytes.Buffer
	err := pageTemplate.Execute(&b, &p)
	return b.Bytes(), err
}

// plots returns the plots of a summary.
func plots(s *scenario.Scenario, x *simulate.Summary) (list []plot) {
	queues := plot{title: "Longest queue of a switch", x: "µs", y: "KiB"}
	var rates []plot
	curves := map[string]*plot{}
	var order []string
	for i := range x.Variants {
		v := &x.Variants[i]
		for k, c := range v.Series {
			if k == 0 {
				queues.curves = append(queues.curves, simulate.Series{Name: v.Name, Points: c.Points})
				continue
			}
			if k == 1 {
				rates = append(rates, plot{title: "Rates of streams, " + v.Name, x: "µs", y: "Gbit/s"})
			}
			r := &rates[len(rates)-1]
			r.curves = append(r.curves, c)
		}
		for _, c := range v.Curves {
			if curves[c.Traffic] == nil {
				curves[c.Traffic] = &plot{title: "Slowdown of messages, " + c.Traffic, x: "slowdown", y: "share of messages", logX: true}
				order = append(order, c.Traffic)
			}
			g := curves[c.Traffic]
			g.curves = append(g.curves, share(v.Name, c.Values))
		}
	}
	for _, name := range order {
		list = append(list, *curves[name])
	}
	return append(append(list, rates...), queues)
}

// share returns the share of messages whose slowdown is at most a value.
func share(name string, values []float64) simulate.Series {
	c := simulate.Series{Name: name}
	step := max(1, len(values)/maxPoints)
	for i := (len(values) - 1) % step; i < len(values); i += step { // up to the last one
		c.Points = append(c.Points, simulate.Point{X: values[i], Y: float64(i+1) / float64(len(values))})
	}
	return c
}
