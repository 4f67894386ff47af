package demo

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/cmd/softrdma/internal/measure"
	"softrdma/verbs"
)

// A resultRow is the result of one operation over one path.
type resultRow struct {
	Name      string     `json:"operation"`
	Path      verbs.Path `json:"path,omitempty"`
	Bytes     int64      `json:"bytes,omitempty"`
	Count     int64      `json:"count,omitempty"` // atomics of each end
	Seconds   float64    `json:"seconds"`
	Gbit      *float64   `json:"gbit_per_s,omitempty"`
	Rate      *float64   `json:"operations_per_s,omitempty"`
	P50       float64    `json:"latency_p50_us"`
	P99       float64    `json:"latency_p99_us"`
	ClientCPU *float64   `json:"client_cpu_s_per_gib,omitempty"`
	ServerCPU *float64   `json:"server_cpu_s_per_gib,omitempty"`
	Checked   string     `json:"checked"`
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
	Captures   []capture   `json:"captures,omitempty"`
	WhyNetwork string      `json:"why_network,omitempty"`    // why nothing went through memory
	Reason     string      `json:"network_reason,omitempty"` // its name
	Operations []resultRow `json:"operations"`

	Encrypted  bool `json:"-"` // RDMA is encrypted, TCP is not
	Processors int  `json:"-"`
}

// A capture is the file with the packets of one path.
type capture struct {
	Path verbs.Path `json:"path,omitempty"`
	File string     `json:"file"`
}

// explainNetwork records why a queue pair does not use memory.
func (r *report) explainNetwork(q *verbs.QP) {
	err := q.WhyNetwork()
	if err == nil {
		return
	}
	r.WhyNetwork = cli.OneLine(err)
	if why := verbs.ReasonError(nil); errors.As(err, &why) {
		r.Reason = why.Reason()
	}
}

func (r *report) print(w io.Writer, asJSON bool) error {
	if asJSON {
		return cli.WriteJSON(w, r)
	}
	_, err := io.WriteString(w, r.text(cli.TerminalWidth(w, fullWidth)))
	return err
}

// fullWidth is the width of a terminal that the report fits. It is not made wider.
const fullWidth = 80

// text returns the report for a terminal of the given width.
func (r *report) text(width int) string {
	width = min(width, fullWidth)
	file := "A generated file"
	if r.File != generatedFile {
		file = r.File
	}
	title := fmt.Sprintf("%s (%s) moves between two processes on this machine, over %s from %s to %s, and back with READ:",
		file, binaryBytes(float64(r.Bytes)), strings.ReplaceAll(r.Protocol, " ", "\u00a0"), r.Client, r.Server)
	paragraphs := []string{wrap(title, width), r.table(width), "SHA-256 " + r.SHA256}
	for _, p := range []string{r.notes(), r.missing(), r.captureNote(), r.conclusion()} {
		if p != "" {
			paragraphs = append(paragraphs, wrap(p, width))
		}
	}
	return strings.Join(paragraphs, "\n\n") + "\n"
}

// wrap breaks a paragraph into lines, but not at non-breaking spaces (U+00A0), which it
// replaces by ordinary ones. WrapSoft takes both for the same.
func wrap(paragraph string, width int) string {
	const noSpace = "\ue000" // of one column
	s := text.WrapSoft(strings.ReplaceAll(paragraph, "\u00a0", noSpace), width)
	return strings.ReplaceAll(trimLines(s), noSpace, " ")
}

// notes says how the figures were measured.
func (r *report) notes() string {
	s := "The file and the counters were checked after each run"
	if r.Repeats > 1 {
		s += fmt.Sprintf("; rates are the median of %d runs", r.Repeats)
	}
	s += ". Latency is measured after a warm-up, both ends polling (TCP too): one way, or the round trip of READ and atomics." +
		r.processorTime()
	if r.Processors == 1 {
		s += " The two programs share one processor, so latency is the time to switch between them."
	}
	return s
}

// processorTime says what both ends used for each GiB.
func (r *report) processorTime() string {
	if r.Bytes < minComparable {
		return ""
	}
	var parts []string
	for _, o := range []*resultRow{r.row(measure.OpWrite, verbs.PathSameHost), r.networkWrite(), r.tcp()} {
		if o == nil || o.ClientCPU == nil || o.ServerCPU == nil {
			continue
		}
		name := pathTitle(o.Path)
		switch {
		case o.Name == measure.OpTCP:
			name = "for TCP"
		case len(parts) == 0:
			name = "for WRITE " + name
		}
		parts = append(parts, fmt.Sprintf("%s\u00a0s %s", threeDigits(*o.ClientCPU+*o.ServerCPU), name))
	}
	if len(parts) == 0 {
		return ""
	}
	return " Processor time of both ends per GiB: " + strings.Join(parts, ", ") + "."
}

// missing says why the table has no figures for the path through memory.
func (r *report) missing() string {
	switch {
	case r.Reason == "HOST_OFF":
		return "Not through memory: --same-host off."
	case r.WhyNetwork == "":
		return ""
	case r.Reason == "":
		return fmt.Sprintf("Not through memory: %s.", r.WhyNetwork)
	}
	return fmt.Sprintf("Not through memory: %s (see softrdma explain %s).", r.WhyNetwork, r.Reason)
}

func (r *report) captureNote() string {
	if len(r.Captures) == 0 {
		return ""
	}
	var parts []string
	for _, c := range r.Captures {
		parts = append(parts, fmt.Sprintf("%s (%s)", c.File, pathTitle(c.Path)))
	}
	file := r.Captures[0].File
	return fmt.Sprintf("The packets are in %s. Open them with: wireshark %s, or softrdma capture %s.", strings.Join(parts, " and "), file, file)
}

// row returns the row of an operation over a path, or nil.
func (r *report) row(name string, path verbs.Path) *resultRow {
	for i := range r.Operations {
		if o := &r.Operations[i]; o.Name == name && o.Path == path {
			return o
		}
	}
	return nil
}

// tcp returns the row of kernel TCP, or nil.
func (r *report) tcp() *resultRow { return r.row(measure.OpTCP, verbs.PathNetwork) }

// networkWrite returns the row of WRITE over the network, or nil.
func (r *report) networkWrite() *resultRow { return r.row(measure.OpWrite, verbs.PathNetwork) }
