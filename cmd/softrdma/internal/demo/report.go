package demo

import (
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/cmd/softrdma/internal/measure"
)

// A resultRow is the result of one operation.
type resultRow struct {
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

// rate computes the rate and the processor time per GiB.
func (r *resultRow) rate(client, server float64) {
	seconds := max(r.Seconds, 1e-9)
	if r.Count > 0 {
		r.Bytes = 0
		v := float64(r.Count) / seconds
		r.Rate = &v
		return
	}
	gib := float64(r.Bytes) / measure.GiB
	gbit, c, s := float64(r.Bytes)*8e-9/seconds, client/gib, server/gib
	r.Gbit, r.ClientCPU, r.ServerCPU = &gbit, &c, &s
}

// A report is the result of the demo.
type report struct {
	File       string      `json:"file"`
	Bytes      int         `json:"bytes"`
	SHA256     string      `json:"sha256"`
	Protocol   string      `json:"protocol"`
	Client     string      `json:"client"`
	Server     string      `json:"server"`
	Repeats    int         `json:"runs"`
	Capture    string      `json:"capture,omitempty"`
	Operations []resultRow `json:"operations"`

	Encrypted  bool `json:"-"` // RDMA is encrypted, TCP is not
	Processors int  `json:"-"`
}

func (r *report) print(w io.Writer, asJSON bool) error {
	if asJSON {
		return cli.WriteJSON(w, r)
	}
	_, err := io.WriteString(w, r.text())
	return err
}

// terminalWidth is the width of a terminal that the report fits.
const terminalWidth = 80

func (r *report) text() string {
	var b strings.Builder
	file := "a generated file"
	if r.File != generatedFile {
		file = r.File
	}
	fmt.Fprintf(&b, "%s (%s) over %s\nfrom %s to %s, and back with READ:\n\n", file, binaryBytes(float64(r.Bytes)), r.Protocol, r.Client, r.Server)
	b.WriteString(r.table())
	fmt.Fprintf(&b, "\n\nSHA-256 %s\n", r.SHA256)
	for _, paragraph := range []string{r.notes(), r.captureNote(), r.conclusion()} {
		if paragraph != "" {
			fmt.Fprintf(&b, "\n%s\n", trimLines(text.WrapSoft(paragraph, terminalWidth)))
		}
	}
	return b.String()
}

func (r *report) table() string {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.Style().Format.Header = text.FormatDefault
	t.Style().Options.DrawBorder = false
	t.AppendHeader(table.Row{"operation", "time", "rate", "p50 of\n8 bytes", "p99 of\n8 bytes", "CPU/GiB\nclient", "CPU/GiB\nserver"})
	for _, o := range r.Operations {
		t.AppendRow(o.cells())
	}
	var right []table.ColumnConfig
	for n := 2; n <= 7; n++ {
		right = append(right, table.ColumnConfig{Number: n, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	t.SetColumnConfigs(right)
	return trimLines(t.Render())
}

// trimLines removes trailing spaces from lines.
func trimLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// notes says how the figures were measured.
func (r *report) notes() string {
	s := "The file and the sums of the counters were checked after each run. "
	if r.Repeats > 1 {
		s += fmt.Sprintf("Time is the median of %d runs. ", r.Repeats)
	}
	s += "p50 and p99 are measured after a warm-up: half of the round trip, or all of it for READ and atomics," +
		" in which the other program takes no part. Both ends poll, with TCP as well."
	if r.Processors == 1 {
		s += " The two programs share one processor, so latency is the time to switch between them."
	}
	return s
}

func (r *report) captureNote() string {
	if r.Capture == "" {
		return ""
	}
	return fmt.Sprintf("The packets are in %s: wireshark %s, or softrdma capture %s.", r.Capture, r.Capture, r.Capture)
}

// minComparable is the file size from which throughput is meaningful; below it the
// start-up time dominates.
const minComparable = 16 << 20

// conclusion summarises the figures in one sentence.
func (r *report) conclusion() string {
	write, tcp := r.operation(measure.OpWrite), r.operation(measure.OpTCP)
	switch {
	case r.Capture != "":
		return "In short: every operation works, but each packet was also written to disk: measure speed without --pcap."
	case write == nil || tcp == nil || write.Gbit == nil || tcp.Gbit == nil:
		return ""
	}
	s := "In short: with no RDMA hardware, "
	if r.Bytes >= minComparable {
		s += fmt.Sprintf("RDMA WRITE moved the file %s, and it ", comparedToTCP(*write.Gbit / *tcp.Gbit))
	} else {
		s += "RDMA WRITE "
	}
	s += fmt.Sprintf("put 8 bytes into the other program's memory in %s, where kernel TCP took %s", duration(write.P50), duration(tcp.P50))
	if r.Encrypted {
		s += "; RDMA was encrypted here, TCP was not"
	}
	return s + "."
}

// comparedToTCP describes a ratio of throughputs. Differences up to a tenth are within
// the variation of runs and are not mentioned.
func comparedToTCP(ratio float64) string {
	switch {
	case ratio < 0.9:
		return fmt.Sprintf("at %.0f %% of kernel TCP's rate", 100*ratio)
	case ratio <= 1.1:
		return "about as fast as kernel TCP"
	}
	return fmt.Sprintf("at %.1f times kernel TCP's rate", ratio)
}

func (r *report) operation(name string) *resultRow {
	for i := range r.Operations {
		if r.Operations[i].Name == name {
			return &r.Operations[i]
		}
	}
	return nil
}

// cells returns the row of the table.
func (r *resultRow) cells() table.Row {
	cpu := func(v *float64) string {
		if v == nil {
			return "-"
		}
		return threeDigits(*v) + " s"
	}
	rate := ""
	if r.Rate != nil {
		rate = fmt.Sprintf("%.0f k/s", *r.Rate/1e3)
	} else if r.Gbit != nil {
		rate = binaryBytes(*r.Gbit/8e-9) + "/s"
	}
	return table.Row{r.Title, duration(r.Seconds * 1e6), rate, duration(r.P50), duration(r.P99), cpu(r.ClientCPU), cpu(r.ServerCPU)}
}

// binaryBytes formats a number of bytes with about three digits and a unit of a power
// of 1024.
func binaryBytes(n float64) string {
	unit := 0
	for ; n >= 1000 && unit < 4; unit++ {
		n /= 1024
	}
	name := []string{"B", "KiB", "MiB", "GiB", "TiB"}[unit]
	if unit == 0 {
		return fmt.Sprintf("%.0f %s", n, name)
	}
	return threeDigits(n) + " " + name
}

// duration formats a time in microseconds with a suitable unit.
func duration(µs float64) string {
	for _, u := range []struct {
		µs   float64
		name string
	}{{1e6, "s"}, {1e3, "ms"}} {
		if µs >= u.µs*0.9995 {
			return threeDigits(µs/u.µs) + " " + u.name
		}
	}
	return threeDigits(µs) + " µs"
}

// threeDigits formats a number with three digits. Whole numbers have no decimals.
func threeDigits(v float64) string {
	switch {
	case v == float64(int64(v)) || v >= 99.95:
		return fmt.Sprintf("%.0f", v)
	case v >= 9.995:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
