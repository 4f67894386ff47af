package demo

import (
	"fmt"
	"io"
	"sync"
	"time"

	bars "github.com/jedib0t/go-pretty/v6/progress"
	"github.com/jedib0t/go-pretty/v6/text"

	"softrdma/cmd/softrdma/internal/cli"
)

// A progress shows what the demo is doing: on a terminal one line that is removed at
// the end, otherwise one line for each operation. The methods of a nil progress do
// nothing.
type progress struct {
	out      io.Writer
	terminal bool
	title    string // number and title of the operation
	max      int64
	run      *bars.Tracker // nil if no bar is shown
	bar      bars.Writer
	drawing  sync.WaitGroup // the goroutine that draws the bar
}

const (
	barWidth    = 20 // fits a line into 80 columns
	barInterval = 100 * time.Millisecond
)

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
	p.run = &bars.Tracker{Message: fmt.Sprintf("%s, run %d/%d", p.title, run, runs), Total: p.max, AutoStopDisabled: true}
	p.bar = bars.NewWriter()
	p.bar.SetOutputWriter(p.out)
	p.bar.SetStyle(bars.StyleBlocks)
	p.bar.SetTerminalWidth(cli.TerminalWidth(p.out, 80)) // one line, which finish removes
	p.bar.SetTrackerLength(barWidth)
	p.bar.SetTrackerPosition(bars.PositionRight)
	p.bar.SetUpdateFrequency(barInterval)
	style := p.bar.Style()
	style.Options.PercentFormat = "%3.0f%%"
	style.Visibility.Time, style.Visibility.Value = false, false
	p.bar.AppendTracker(p.run)
	p.drawing.Go(p.bar.Render)
}

// set sets how many bytes or requests of the run are complete.
func (p *progress) set(n int64) {
	if p != nil && p.run != nil {
		p.run.SetValue(min(n, p.max))
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
	if p == nil || !p.terminal {
		return
	}
	if p.run != nil {
		p.bar.Stop()
		p.drawing.Wait() // it draws a last time, and leaves the cursor in the next line
		p.run = nil
		fmt.Fprint(p.out, text.CursorUp.Sprint())
	}
	fmt.Fprint(p.out, "\r", text.EraseLine.Sprint())
}
