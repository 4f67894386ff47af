package main

import (
	"fmt"
	"io"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// demoProgress shows what the demo is doing: on a terminal one line that moves
// and is gone at the end, elsewhere a line for each operation. Its methods do
// nothing on nil.
type demoProgress struct {
	out      io.Writer
	terminal bool
	title    string // of the operation, with its number
	bar      *progressbar.ProgressBar
	max      int64
}

// demoBarWidth is chosen for a line of at most 80 columns.
const demoBarWidth = 40

func newDemoProgress(out io.Writer, quiet bool) *demoProgress {
	if quiet {
		return nil
	}
	return &demoProgress{out: out, terminal: isTerminal(out)}
}

// operation begins operation n of the given number of operations.
func (p *demoProgress) operation(n, of int, title string) {
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
func (p *demoProgress) transfer(run, runs, bytes int, count int64) {
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
		progressbar.OptionThrottle(50e6), progressbar.OptionSetWidth(demoBarWidth),
		progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(false))
}

// set tells how many bytes or requests of the run are done.
func (p *demoProgress) set(n int64) {
	if p != nil && p.bar != nil {
		p.bar.Set64(min(n, p.max))
	}
}

// latency begins the latency test. Its line is not redrawn, because redrawing would
// take processor time from the measurement.
func (p *demoProgress) latency() {
	if p == nil || !p.terminal {
		return
	}
	p.finish()
	fmt.Fprintf(p.out, "%s, latency of 8 bytes", p.title)
}

// finish removes the line from the terminal.
func (p *demoProgress) finish() {
	if p != nil && p.terminal {
		fmt.Fprint(p.out, "\r\033[K")
		p.bar = nil
	}
}

// isTerminal tells whether somebody looks at what is written.
func isTerminal(w io.Writer) bool {
	f, ok := w.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(f.Fd()))
}
