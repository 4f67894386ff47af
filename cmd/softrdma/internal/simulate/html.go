package simulate

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"strings"

	"softrdma/internal/simulate"
	"softrdma/internal/simulate/scenario"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{"number": number}).Parse(pageText))

// number reports whether a cell of a table is a number, perhaps with a unit.
func number(cell any) bool {
	s := strings.TrimPrefix(fmt.Sprint(cell), "≤ ")
	return s != "" && s[0] >= '0' && s[0] <= '9'
}

// A page is what the template shows.
type page struct {
	Title, About, Where string
	Tables              []*table
	Plots               []template.HTML
	Papers              []scenario.Paper
	Variants            []simulate.VariantSummary
}

// html returns a summary as one self-contained page with plots.
func html(s *scenario.Scenario, x *simulate.Summary) ([]byte, error) {
	p := page{Title: x.Title, About: strings.TrimSpace(s.About), Where: where(x), Tables: tables(x), Papers: x.Papers, Variants: x.Variants}
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
	queues := plot{title: "Longest queue of a switch", x: "time, µs", y: "KiB"}
	paused := plot{title: "Paused ports", x: "time, µs", y: "ports"}
	fair := plot{title: "Fairness of the streams' rates", x: "time, µs", y: "Jain's index"}
	for i := range x.Variants {
		v := &x.Variants[i]
		queues.add(v.Name, v.Queues)
		if v.Pauses.Frames > 0 {
			paused.add(v.Name, v.PausedPorts)
		}
		fair.add(v.Name, v.Fair)
	}
	list = append(bySize(s, x), distributions(x)...)
	for i := range x.Variants {
		if v := &x.Variants[i]; len(v.Rates) > 0 {
			list = append(list, plot{title: "Rates of streams, " + v.Name, x: "time, µs", y: "Gbit/s", curves: v.Rates})
		}
	}
	return append(list, fair, queues, paused)
}

// add adds a curve that has points.
func (p *plot) add(name string, points []simulate.Point) {
	if len(points) > 0 {
		p.curves = append(p.curves, simulate.Series{Name: name, Points: points})
	}
}

// bySize returns plots of the slowdowns over the sizes of messages, for each traffic with several sizes.
func bySize(s *scenario.Scenario, x *simulate.Summary) (list []plot) {
	for t := range s.Traffic {
		for _, k := range []struct {
			name string
			of   func(*simulate.Slowdown) float64
		}{
			{"Median", func(d *simulate.Slowdown) float64 { return d.P50 }},
			{"95th percentile", func(d *simulate.Slowdown) float64 { return d.P95 }},
			{"99th percentile", func(d *simulate.Slowdown) float64 { return d.P99 }},
		} {
			p := plot{title: k.name + " of the slowdown by size, " + s.Traffic[t].Name, x: "bytes, at most", y: "slowdown", logX: true, logY: true, dots: true}
			for i := range x.Variants {
				var points []simulate.Point
				for j := range x.Variants[i].Slowdown {
					if d := &x.Variants[i].Slowdown[j]; d.Number == t {
						points = append(points, simulate.Point{X: float64(d.UpTo), Y: k.of(d)})
					}
				}
				if len(points) > 1 {
					p.add(x.Variants[i].Name, points)
				}
			}
			list = append(list, p)
		}
	}
	return list
}

// distributions returns the share of messages over their slowdown, for each traffic.
func distributions(x *simulate.Summary) (list []plot) {
	at := map[string]int{}
	for i := range x.Variants {
		for _, c := range x.Variants[i].Curves {
			k, ok := at[c.Traffic]
			if !ok {
				k = len(list)
				at[c.Traffic] = k
				list = append(list, plot{title: "Slowdown of messages, " + c.Traffic, x: "slowdown", y: "share of messages", logX: true})
			}
			list[k].curves = append(list[k].curves, share(x.Variants[i].Name, c.Values))
		}
	}
	return list
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
