package compare

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"mega": func(format string, v float64) string { return fmt.Sprintf(format, v/1e6) },
	"kibi": func(v int) int { return v >> 10 },
}).Parse(pageText))

// A page is what the template shows.
type page struct {
	Origin   *Origin
	Gates    bool // with those of softrdma's developers
	Sections []section
	Loss     *LossTable // nil without one
	Plots    []template.HTML
}

// A section is a table of figures.
type section struct {
	Title string
	Rows  []pageRow
}

// A pageRow is a Row with its cells as text.
type pageRow struct {
	Name, Missing       string
	Cells               []string
	Span, Gate, Verdict string // for softrdma's developers
}

func newSection(title string, rows []Row) section {
	s := section{Title: title}
	for i := range rows {
		r := &rows[i]
		of, against, ratio, span := r.Cells()
		s.Rows = append(s.Rows, pageRow{r.Name, r.Missing, []string{of, against, ratio, r.Words()}, span, r.Limit(r.Gate), r.Verdict()})
	}
	return s
}

// write writes the page. Plots escape the text in them.
func (p *page) write(w io.Writer, plots []Plot) error {
	for i := range plots {
		image, err := plots[i].SVG()
		if err != nil {
			return fmt.Errorf("plot %s: %w", plots[i].Title, err)
		}
		p.Plots = append(p.Plots, template.HTML(image))
	}
	return pageTemplate.Execute(w, p)
}

// WriteHTML writes tables and plots as one self-contained page.
func WriteHTML(w io.Writer, o *Origin, gates bool, tables []*Table, plots []Plot) error {
	p := page{Origin: o, Gates: gates}
	for _, t := range tables {
		p.Sections = append(p.Sections, newSection(fmt.Sprintf("%s, rounds: %d", t.Path, t.Rounds), t.Rows))
	}
	return p.write(w, plots)
}

// WriteHTML writes the table and its plots as one self-contained page.
func (t *LossTable) WriteHTML(w io.Writer, o *Origin, gates bool) error {
	p := page{Origin: o, Gates: gates, Sections: []section{newSection(fmt.Sprintf("Goodput over a relay, rounds: %d", t.Rounds), t.Figures)}, Loss: t}
	return p.write(w, t.Plots())
}
