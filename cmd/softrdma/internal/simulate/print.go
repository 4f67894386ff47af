package simulate

import (
	"fmt"
	"io"
	"slices"
	"strconv"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/internal/simulate"
)

// A table is a table of text and HTML.
type table struct {
	Title  string
	Header []any
	Rows   [][]any
}

func (t *table) row(cells ...any) { t.Rows = append(t.Rows, cells) }

// print prints a summary as tables.
func print(out io.Writer, x *simulate.Summary) error {
	if x.Title != "" {
		fmt.Fprintln(out, x.Title)
	}
	fmt.Fprintln(out, where(x))
	for i := range x.Variants {
		for _, w := range x.Variants[i].Warnings {
			fmt.Fprintf(out, "warning: %s: %s\n", x.Variants[i].Name, w)
		}
	}
	for _, t := range tables(x) {
		fmt.Fprintln(out)
		w := cli.NewTable(t.Header...)
		for _, r := range t.Rows {
			w.Row(r...)
		}
		if err := w.Print(out); err != nil {
			return err
		}
	}
	return papers(out, x)
}

// where says what was simulated.
func where(x *simulate.Summary) string {
	seeds := fmt.Sprintf("seed %d", x.Seed)
	if x.Seeds > 1 {
		seeds = fmt.Sprintf("seeds %d to %d", x.Seed, x.Seed+uint64(x.Seeds)-1)
	}
	return fmt.Sprintf("%s, %s, %s", x.Topology, cli.Plural(x.Hosts, "host"), seeds)
}

// tables returns the tables of a summary that have rows.
func tables(x *simulate.Summary) (list []*table) {
	for _, t := range []*table{messages(x), streams(x), network(x)} {
		if len(t.Rows) > 0 {
			list = append(list, t)
		}
	}
	return list
}

// messages returns the table of messages.
func messages(x *simulate.Summary) *table {
	t := &table{Title: "Messages", Header: []any{"VARIANT", "TRAFFIC", "BYTES", "MESSAGES", "MEAN µs", "SLOWDOWN p50", "p95", "p99", "MAX", "UNFINISHED"}}
	for i := range x.Variants {
		v := &x.Variants[i]
		for k := range v.Slowdown {
			s := &v.Slowdown[k]
			left := ""
			if n := v.Messages.Started - v.Messages.Finished; k == 0 && n > 0 {
				left = strconv.Itoa(n)
			}
			t.row(first(v.Name, k), s.Traffic, "≤ "+size(s.UpTo), s.Messages, fmt.Sprintf("%.1f", s.Mean), two(s.P50), two(s.P95), two(s.P99), two(s.Max), left)
		}
		if len(v.Slowdown) == 0 && v.Messages.Started > 0 {
			t.row(v.Name, "", "", 0, "", "", "", "", "", v.Messages.Started)
		}
	}
	return t
}

// first returns the name in the first of several rows.
func first(name string, row int) string {
	if row == 0 {
		return name
	}
	return ""
}

// streams returns the table of streams.
func streams(x *simulate.Summary) *table {
	t := &table{Title: "Streams", Header: []any{"VARIANT", "STREAM", "FROM", "TO", "Gbit/s", "MIN", "MAX", "FAIRNESS"}}
	for i := range x.Variants {
		v := &x.Variants[i]
		for k := range v.Streams {
			s := &v.Streams[k]
			fair := ""
			if k == 0 && v.Fairness != nil {
				fair = fmt.Sprintf("%.3f", *v.Fairness)
			}
			t.row(first(v.Name, k), s.Traffic, s.From, s.To, two(s.Rate), two(s.Low), two(s.High), fair)
		}
	}
	return t
}

// network returns the table of what the network did.
func network(x *simulate.Summary) *table {
	t := &table{Title: "Network", Header: []any{"VARIANT", "GOODPUT Gbit/s", "QUEUE p50", "p99", "PEAK", "PAUSES", "PAUSED µs", "MARKS", "DROPS", "REPEATED", "FAILED"}}
	stuck := slices.ContainsFunc(x.Variants, func(v simulate.VariantSummary) bool { return v.Deadlock > 0 || v.Storms > 0 })
	if stuck {
		t.Header = append(t.Header, "STORMS", "DEADLOCKS")
	}
	for i := range x.Variants {
		v := &x.Variants[i]
		row := []any{v.Name, two(v.Goodput), size(int64(v.Queue.P50)), size(int64(v.Queue.P99)), size(int64(v.Queue.Peak)), v.Pauses.Frames,
			fmt.Sprintf("%.0f", v.Pauses.Time), v.Marked, v.Drops, fmt.Sprintf("%.2f %%", 100*v.Repeated), v.Messages.Failed}
		if stuck {
			row = append(row, v.Storms, v.Deadlock)
		}
		t.row(row...)
	}
	return t
}

func papers(out io.Writer, x *simulate.Summary) error {
	for _, p := range x.Papers {
		if _, err := fmt.Fprintf(out, "\n%s: %s\n%s\n", p.What, p.Figure, p.Ours); err != nil {
			return err
		}
	}
	return nil
}

func two(v float64) string { return fmt.Sprintf("%.2f", v) }

// size returns a number of bytes in units of 1000.
func size(n int64) string {
	switch v := float64(n); {
	case n >= 1e6:
		return fmt.Sprintf("%.3g MB", v/1e6)
	case n >= 1e3:
		return fmt.Sprintf("%.3g kB", v/1e3)
	}
	return fmt.Sprintf("%d B", n)
}
