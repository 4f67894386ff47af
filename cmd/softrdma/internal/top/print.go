package top

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/internal/control"
)

// print prints reports as tables or objects.
func (c *command) print(ctx context.Context, out io.Writer) error {
	first := true
	return c.each(ctx, func(r *report) error {
		r = r.filtered(c.filter)
		if c.asJSON {
			return json.NewEncoder(out).Encode(r)
		}
		if !first {
			fmt.Fprintln(out)
		}
		first = false
		return r.print(out)
	})
}

// print prints a report as tables.
func (r *report) print(out io.Writer) error {
	m := model{shown: r, byDevice: order{column: "PID"}, byQP: order{column: "TX B/s"}}
	devices, qps := m.rows()
	for _, e := range r.Errors {
		fmt.Fprintln(out, e)
	}
	if len(devices) == 0 {
		_, err := fmt.Fprintf(out, "%s  no device of a program of this user (programs answer in %s)\n", r.Time.Format("15:04:05"), control.Directory())
		return err
	}
	fmt.Fprintf(out, "%s  over %.1f s\n", r.Time.Format("15:04:05"), r.Seconds)
	if err := printTable(out, deviceColumns, devices); err != nil || len(qps) == 0 {
		return err
	}
	fmt.Fprintln(out)
	if err := printTable(out, qpColumns, qps); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\n%s\n", m.reasons())
	return err
}

func printTable[R any](out io.Writer, list []column[R], rows []*R) error {
	var heads []any
	for _, c := range list {
		heads = append(heads, c.head)
	}
	t := cli.NewTable(heads...)
	for _, r := range rows {
		var cells []any
		for _, c := range list {
			cells = append(cells, clean(c.cell(r)))
		}
		t.Row(cells...)
	}
	return t.Print(out)
}
