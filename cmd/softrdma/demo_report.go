package main

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// A demoRow is what was found of one operation.
type demoRow struct {
	Name      string   `json:"operation"`
	Title     string   `json:"-"`
	Bytes     int64    `json:"bytes,omitempty"`
	Count     int64    `json:"count,omitempty"` // atomics of each end
	Seconds   float64  `json:"seconds"`
	Gbit      *float64 `json:"gbit_per_s,omitempty"`
	Rate      *float64 `json:"operations_per_s,omitempty"`
	P50       float64  `json:"latency_p50_us"`
	P99       float64  `json:"latency_p99_us"`
	ClientCPU *float64 `json:"client_cpu_s_per_gib,omitempty"`
	ServerCPU *float64 `json:"server_cpu_s_per_gib,omitempty"`
	Checked   string   `json:"checked"`
}

// rate works out what follows from time and processor time.
func (r *demoRow) rate(client, server float64) {
	seconds := max(r.Seconds, 1e-9)
	if r.Count > 0 {
		r.Bytes = 0
		v := float64(r.Count) / seconds
		r.Rate = &v
		return
	}
	gib := float64(r.Bytes) / giB
	gbit, c, s := float64(r.Bytes)*8e-9/seconds, client/gib, server/gib
	r.Gbit, r.ClientCPU, r.ServerCPU = &gbit, &c, &s
}

// A demoReport is what the demo found.
type demoReport struct {
	File       string    `json:"file"`
	Bytes      int       `json:"bytes"`
	SHA256     string    `json:"sha256"`
	Protocol   string    `json:"protocol"`
	Client     string    `json:"client"`
	Server     string    `json:"server"`
	Repeats    int       `json:"runs"`
	Capture    string    `json:"capture,omitempty"`
	Operations []demoRow `json:"operations"`
}

func (r *demoReport) print(w io.Writer, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	_, err := io.WriteString(w, r.text())
	return err
}

func (r *demoReport) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d bytes (%s) by %s from %s to %s and, by READ, back:\n\n", r.Bytes, r.File, r.Protocol, r.Client, r.Server)
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.Style().Format.Header = text.FormatDefault
	t.Style().Options.DrawBorder = false
	t.AppendHeader(table.Row{"operation", "bytes", "time", "Gbit/s", "p50 8 B", "p99 8 B", "CPU s/GiB\nclient", "CPU s/GiB\nserver", "checked"})
	for _, o := range r.Operations {
		t.AppendRow(o.cells())
	}
	var right []table.ColumnConfig
	for n := 2; n <= 8; n++ {
		right = append(right, table.ColumnConfig{Number: n, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	t.SetColumnConfigs(right)
	b.WriteString(t.Render())
	fmt.Fprintf(&b, "\n\nSHA-256 %s at both ends.\n", r.SHA256)
	b.WriteString(r.notes())
	return b.String()
}

func (r *demoReport) notes() string {
	s := ""
	if r.Repeats > 1 {
		s = fmt.Sprintf("Time is the median of %d runs. ", r.Repeats)
	}
	s += "Latency is half of the round trip; of READ and\natomics, which the other end's program takes no part in, all of it. Both ends poll, also over TCP.\n"
	if runtime.GOOS == "linux" {
		s += "TCP is the kernel's, with writes of 1 MiB and cubic.\n"
	}
	if r.Capture != "" {
		s += fmt.Sprintf("The packets are in %s: wireshark %s, or softrdma capture %s.\n", r.Capture, r.Capture, r.Capture)
	}
	return s
}

// cells is the row of the table.
func (r *demoRow) cells() table.Row {
	optional := func(format string, v *float64) string {
		if v == nil {
			return "-"
		}
		return fmt.Sprintf(format, *v)
	}
	what := fmt.Sprint(r.Bytes)
	if r.Count > 0 {
		what = fmt.Sprintf("%d × 8", r.Count)
	}
	return table.Row{
		r.Title, what, fmt.Sprintf("%.3f s", r.Seconds), optional("%.2f", r.Gbit),
		fmt.Sprintf("%.1f µs", r.P50), fmt.Sprintf("%.1f µs", r.P99),
		optional("%.2f", r.ClientCPU), optional("%.2f", r.ServerCPU), r.Checked,
	}
}
