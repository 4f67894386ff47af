package main

import (
	"io"
	"os"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// demoProgress shows on a terminal how far an operation has come. Where there
// is none it is nil and shows nothing.
type demoProgress struct {
	out io.Writer
	bar *progressbar.ProgressBar
	max int64
}

func newDemoProgress(out io.Writer, quiet bool) *demoProgress {
	if quiet || !isTerminal(out) {
		return nil
	}
	return &demoProgress{out: out}
}

// begin starts the bar of an operation on so many bytes, or if count is given
// of so many requests.
func (p *demoProgress) begin(title string, bytes int, count int64) {
	if p == nil {
		return
	}
	p.finish()
	p.max = int64(bytes)
	options := []progressbar.Option{
		progressbar.OptionSetWriter(p.out), progressbar.OptionSetDescription(title), progressbar.OptionClearOnFinish(),
		progressbar.OptionThrottle(50e6), progressbar.OptionSetWidth(40),
	}
	if count > 0 {
		p.max = count
	} else {
		options = append(options, progressbar.OptionShowBytes(true), progressbar.OptionUseIECUnits(true))
	}
	p.bar = progressbar.NewOptions64(p.max, options...)
}

func (p *demoProgress) set(n int64) {
	if p != nil {
		p.bar.Set64(min(n, p.max))
	}
}

// finish takes the bar off the terminal.
func (p *demoProgress) finish() {
	if p != nil && p.bar != nil {
		p.bar.Clear()
		p.bar = nil
	}
}

// isTerminal tells whether somebody looks at what is written.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
