package demo

import (
	"strings"
	"testing"
	"unicode/utf8"

	"softrdma/cmd/softrdma/internal/measure"
	"softrdma/verbs"
)

// fitsTerminal checks that lines are no wider than a terminal, but for the SHA-256, and
// have no spaces at their end.
func fitsTerminal(t *testing.T, out string, width int) {
	t.Helper()
	for line := range strings.Lines(out) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "SHA-256") && utf8.RuneCountInString(line) <= fullWidth {
			continue
		}
		if n := utf8.RuneCountInString(line); n > width || strings.HasSuffix(line, " ") {
			t.Errorf("a line of %d columns, or with spaces at its end: %q", n, line)
		}
	}
}

// A figure is what a report says of WRITE or TCP over a path.
type figure struct {
	path      verbs.Path
	gbit, p50 float64
}

// wideReport returns a report with wide figures but for those of WRITE on some paths and
// of TCP.
func wideReport(size int, tcp figure, writes ...figure) *report {
	r := &report{File: generatedFile, Bytes: size, SHA256: strings.Repeat("f", 64), Protocol: "RoCE v2", Client: "127.0.0.1:4791", Server: "127.0.0.2:4791", Repeats: 3}
	for i, w := range writes {
		for _, o := range operations {
			if o.name == measure.OpTCP && i < len(writes)-1 {
				continue
			}
			row := resultRow{Name: o.name, Path: o.path(w.path), Bytes: int64(size), Count: o.count, Seconds: 123.4, P50: 123_456, P99: 99_999_999}
			row.rate(12345, 12345)
			r.Operations = append(r.Operations, row)
		}
		write := r.row(measure.OpWrite, w.path)
		*write.Gbit, write.P50 = w.gbit, w.p50
	}
	*r.tcp().Gbit, r.tcp().P50 = tcp.gbit, tcp.p50
	return r
}

func TestDemoReportFitsTerminal(t *testing.T) {
	r := wideReport(defaultSize, figure{"", 99, 1}, figure{verbs.PathSameHost, 8888.8, 1}, figure{verbs.PathNetwork, 8888.8, 1})
	r.Encrypted, r.Processors = true, 1
	fitsTerminal(t, r.text(fullWidth), fullWidth)
	fitsTerminal(t, r.text(200), fullWidth)
}

// The titles of the paths are wider than these figures.
func TestDemoTableOfNarrowFigures(t *testing.T) {
	for _, gbit := range []float64{0.001, 0.01, 0.1, 1, 10, 100} {
		r := wideReport(defaultSize, figure{"", gbit, 1}, figure{verbs.PathSameHost, gbit, 1}, figure{verbs.PathNetwork, gbit, 1})
		for i := range r.Operations {
			o := &r.Operations[i]
			o.P50, o.P99 = 1, 2
			if o.Rate != nil {
				*o.Rate = 1
			} else {
				*o.Gbit = gbit
			}
		}
		if out := r.table(fullWidth); !strings.Contains(out, "through memory") || !strings.Contains(out, "through the network stack") {
			t.Errorf("%v Gbit/s: expected a title for each path, found\n%s", gbit, out)
		}
	}
}

// On a narrow terminal the paths are below each other.
func TestDemoReportFitsNarrowTerminal(t *testing.T) {
	r := wideReport(defaultSize, figure{"", 99, 1}, figure{verbs.PathSameHost, 8888.8, 1}, figure{verbs.PathNetwork, 8888.8, 1})
	out := r.text(52)
	fitsTerminal(t, out, 52)
	for _, o := range operations {
		want := 2
		if o.name == measure.OpTCP {
			want = 1
		}
		if got := strings.Count(out, "\n  "+o.title+" "); got != want {
			t.Errorf("%s: expected %d rows, found %d in\n%s", o.title, want, got, out)
		}
	}
}

func TestDemoConclusionMatchesFigures(t *testing.T) {
	network := func(size int, gbit, tcp, p50, tcpP50 float64) *report {
		return wideReport(size, figure{"", tcp, tcpP50}, figure{verbs.PathNetwork, gbit, p50})
	}
	both := func(size int) *report {
		return wideReport(size, figure{"", 32, 8}, figure{verbs.PathSameHost, 96, 0.5}, figure{verbs.PathNetwork, 16, 4})
	}
	for name, c := range map[string]struct {
		report *report
		words  []string
	}{
		"slower":    {network(defaultSize, 16, 32, 4, 8), []string{"moved the file at 50 % of TCP's rate", "in 4 µs, where TCP took 8 µs."}},
		"as fast":   {network(defaultSize, 30, 32, 4, 8), []string{"moved the file about as fast as TCP"}},
		"faster":    {network(defaultSize, 48, 32, 12.34, 8), []string{"at 1.5 times TCP's rate", "in 12.3 µs"}},
		"small":     {network(1<<20, 16, 32, 1500, 0.5), []string{"RDMA WRITE put 8 bytes", "in 1.50 ms, where TCP took 0.50 µs"}},
		"encrypted": {func() *report { r := network(1<<20, 1, 1, 1, 1); r.Encrypted = true; return r }(), []string{"encrypted here, TCP was not."}},
		"captured": {func() *report { r := network(1<<20, 1, 1, 1, 1); r.Captures = []capture{{File: "x"}}; return r }(),
			[]string{"measure speed without --pcap"}},
		"memory": {both(defaultSize), []string{"through memory moved the file at 3.0 times TCP's rate", "in 0.50 µs, where TCP took 8 µs;",
			"other machines, it moved the file at 50 % of TCP's rate and took 4 µs."}},
		"memory, small": {both(1 << 20), []string{"through memory put 8 bytes", "in 0.50 µs, where TCP took 8 µs;", "it took 4 µs."}},
	} {
		got := strings.ReplaceAll(c.report.conclusion(), "\u00a0", " ")
		for _, w := range c.words {
			if !strings.Contains(got, w) {
				t.Errorf("%s: expected %q, found %q", name, w, got)
			}
		}
		if strings.Contains(got, "the file") != (c.report.Bytes >= minComparable) {
			t.Errorf("%s: the throughput of %d bytes: %q", name, c.report.Bytes, got)
		}
	}
}

func TestDemoFiguresHaveThreeDigits(t *testing.T) {
	for got, want := range map[string]string{
		duration(0.5): "0.50 µs", duration(9.999): "10.0 µs", duration(99.96): "100 µs", duration(999.9): "1.00 ms", duration(12_340): "12.3 ms", duration(2e6): "2 s",
		binaryBytes(999): "999 B", binaryBytes(256 << 20): "256 MiB", binaryBytes(1023 << 20): "1.00 GiB", binaryBytes(3 << 30): "3 GiB", binaryBytes(1.5 * (1 << 30)): "1.50 GiB",
		byteRate(8.42e9): "8.42 GB/s", byteRate(999.6e6): "1.00 GB/s", byteRate(36.4e6): "36 MB/s", byteRate(35e9): "35 GB/s",
	} {
		if got != want {
			t.Errorf("expected %q, found %q", want, got)
		}
	}
}
