package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/term"
)

// outputFailure holds the first error of writing to standard output or to a capture.
// Commands print and close in many places, some of which cannot return an error; main
// reports the failure as the command's error.
var outputFailure struct {
	sync.Mutex
	err error
}

// outputFailed records an output error and returns it.
func outputFailed(err error) error {
	outputFailure.Lock()
	defer outputFailure.Unlock()
	if outputFailure.err == nil {
		outputFailure.err = err
	}
	return err
}

// WithOutputError joins err with the recorded output error, unless err includes it.
func WithOutputError(err error) error {
	outputFailure.Lock()
	defer outputFailure.Unlock()
	if outputFailure.err == nil || errors.Is(err, outputFailure.err) {
		return err
	}
	return errors.Join(err, outputFailure.err)
}

// Stdout returns standard output. A failed write to it is recorded.
func Stdout() io.Writer { return checkedOutput{os.Stdout} }

type checkedOutput struct{ *os.File }

func (o checkedOutput) Write(b []byte) (int, error) {
	n, err := o.File.Write(b)
	if err != nil {
		err = outputFailed(err)
	}
	return n, err
}

// ForProgram returns the output for a program that a command starts, instead of w. It is the
// command's own standard output if w is that, and not a pipe to the command. So the program
// has the terminal, and continues if the command is killed.
func ForProgram(w io.Writer) io.Writer {
	if o, ok := w.(checkedOutput); ok {
		return o.File
	}
	return w
}

// WriteJSON writes v as indented JSON.
func WriteJSON(out io.Writer, v any) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(f.Fd()))
}

// TerminalWidth returns the number of columns of w if it is a terminal of known size, and
// otherwise the argument of that name.
func TerminalWidth(w io.Writer, otherwise int) int {
	f, ok := w.(interface{ Fd() uintptr })
	if !ok {
		return otherwise
	}
	columns, _, err := term.GetSize(int(f.Fd()))
	if err != nil || columns == 0 {
		return otherwise
	}
	return columns
}

// Plural returns "1 thing" or "n things".
func Plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
