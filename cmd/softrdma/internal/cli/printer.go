package cli

import (
	"fmt"
	"io"
	"sync"
)

// A Printer prints lines for several goroutines.
type Printer struct {
	mu  sync.Mutex
	out io.Writer
}

// NewPrinter returns a Printer that prints to out.
func NewPrinter(out io.Writer) *Printer { return &Printer{out: out} }

// Println prints a line.
func (p *Printer) Println(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintln(p.out, line)
}

// Printf formats and prints a line.
func (p *Printer) Printf(format string, args ...any) { p.Println(fmt.Sprintf(format, args...)) }
