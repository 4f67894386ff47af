package demo

import (
	"fmt"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"softrdma/cmd/softrdma/internal/measure"
	"softrdma/verbs"
)

// pathName names a path in the table.
func pathName(p verbs.Path) string {
	if p == verbs.PathSameHost {
		return "memory"
	}
	return "the network stack"
}

func pathTitle(p verbs.Path) string { return "through " + pathName(p) }

// phase names an operation in the progress.
func (o *operation) phase(p verbs.Path) string {
	if o.name == measure.OpTCP {
		return o.title
	}
	return o.title + " " + pathTitle(p)
}

// paths returns the paths of the RDMA operations in the order of the sessions.
func (r *report) paths() (list []verbs.Path) {
	for _, o := range r.Operations {
		if o.Name != measure.OpTCP && !slices.Contains(list, o.Path) {
			list = append(list, o.Path)
		}
	}
	return list
}

// find returns the row of an operation in the column of a path. TCP is in the last one,
// since it uses the network stack.
func (r *report) find(o *operation, path verbs.Path, last bool) *resultRow {
	if o.name == measure.OpTCP {
		if last {
			return r.tcp()
		}
		return nil
	}
	return r.row(o.name, path)
}

// table returns the figures with the paths side by side, or below each other if the
// terminal is too narrow for that.
func (r *report) table(width int) string {
	s := r.wideTable()
	for line := range strings.Lines(s) {
		if text.StringWidthWithoutEscSequences(strings.TrimSuffix(line, "\n")) > width {
			return r.narrowTable()
		}
	}
	return s
}

func (r *report) wideTable() string {
	paths := r.paths()
	groups, names := table.Row{""}, table.Row{"operation"}
	for _, p := range paths {
		title := pathTitle(p)
		groups, names = append(groups, title, title, title), append(names, "rate", "8 B p50", "8 B p99")
	}
	t := newTable(len(names))
	t.AppendHeader(groups, table.RowConfig{AutoMerge: true, AutoMergeAlign: text.AlignCenter})
	t.AppendHeader(names)
	for i := range operations {
		o := &operations[i]
		row := table.Row{o.title}
		for n, p := range paths {
			row = append(row, r.find(o, p, n == len(paths)-1).cells()...)
		}
		t.AppendRow(row)
	}
	return trimLines(t.Render())
}

func (r *report) narrowTable() string {
	t := newTable(4)
	t.AppendHeader(table.Row{"operation", "rate", "8 B p50", "8 B p99"})
	paths := r.paths()
	for n, p := range paths {
		t.AppendSeparator()
		t.AppendRow(table.Row{pathName(p)})
		for i := range operations {
			if row := r.find(&operations[i], p, n == len(paths)-1); row != nil {
				t.AppendRow(append(table.Row{" " + operations[i].title}, row.cells()...))
			}
		}
	}
	return trimLines(t.Render())
}

// Widths of the columns of a path. Together they hold the longest title of a path, as
// go-pretty cannot merge columns that are one or two characters too narrow (it panics).
const (
	rateWidth    = 9 // "8.42 GB/s"
	latencyWidth = 7 // "0.51 µs"
)

// newTable returns a table with figures in all columns but the first.
func newTable(columns int) table.Writer {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.Style().Format.Header = text.FormatDefault
	t.Style().Options.DrawBorder = false
	var right []table.ColumnConfig
	for n := 2; n <= columns; n++ {
		width := latencyWidth
		if n%3 == 2 {
			width = rateWidth
		}
		right = append(right, table.ColumnConfig{Number: n, Align: text.AlignRight, AlignHeader: text.AlignRight, WidthMin: width})
	}
	t.SetColumnConfigs(right)
	return t
}

// trimLines removes trailing spaces from lines.
func trimLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// cells returns the figures of a row, or dashes for nil.
func (r *resultRow) cells() table.Row {
	if r == nil {
		return table.Row{"-", "-", "-"}
	}
	rate := ""
	switch {
	case r.Rate != nil && *r.Rate >= 999.5e3:
		rate = threeDigits(*r.Rate/1e6) + " M/s"
	case r.Rate != nil:
		rate = fmt.Sprintf("%.0f k/s", *r.Rate/1e3)
	case r.Gbit != nil:
		rate = byteRate(*r.Gbit / 8e-9)
	}
	return table.Row{rate, duration(r.P50), duration(r.P99)}
}
