package demo

import (
	"fmt"
	"io"

	"github.com/schollz/progressbar/v3"

	"softrdma/cmd/softrdma/internal/cli"
)

// A progress shows what the demo is doing: on a terminal one line that is removed at
// the end, otherwise one line for each operation. The methods of a nil progress do
// nothing.
type progress struct {
	out      io.Writer
	terminal bool
	title    string // number and title of the operation
	bar      *progressbar.ProgressBar
	max      int64
}

// barWidth fits a line into 80 columns.
const barWidth = 40

func newProgress(out io.Writer, quiet bool) *progress {
	if quiet {
		return nil
	}
	return &progress{out: out, terminal: cli.IsTerminal(out)}
}

// operation begins operation n of the given number of operations.
func (p *progress) operation(n, of int, title string) {
	if p == nil {
		return
	}
	p.title = fmt.Sprintf("%d/%d %s", n, of, title)
	if !p.terminal {
		fmt.Fprintln(p.out, p.title)
	}
}

// transfer begins one run of the operation, which moves so many bytes or, if
// count is not 0, executes so many requests.
func (p *progress) transfer(run, runs, bytes int, count int64) {
	if p == nil || !p.terminal {
		return
	}
	p.finish()
	p.max = int64(bytes)
	if count > 0 {
		p.max = count
	}
	p.bar = progressbar.NewOptions64(p.max,
		progressbar.OptionSetWriter(p.out), progressbar.OptionSetDescription(fmt.Sprintf("%s, run %d/%d", p.title, run, runs)),
		progressbar.OptionThrottle(50e6), progressbar.OptionSetWidth(barWidth),
		progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(false))
}

// set sets how many bytes or requests of the run are complete.
func (p *progress) set(n int64) {
	if p != nil && p.bar != nil {
		p.bar.Set64(min(n, p.max))
	}
}

// latency begins the latency test. Its line is not redrawn, because redrawing would
// take processor time from the measurement.
func (p *progress) latency() {
	if p == nil || !p.terminal {
		return
	}
	p.finish()
	fmt.Fprintf(p.out, "%s, latency of 8 bytes", p.title)
}

// finish removes the line from the terminal.
func (p *progress) finish() {
	if p != nil && p.terminal {
		fmt.Fprint(p.out, "\r\033[K")
		p.bar = nil
	}
}
