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

// outputFailure keeps the first failure of what this process writes, to standard output or
// to captures. Commands print and close in many places, some of which cannot return
// an error; execute reports the failure as the command's error.
var outputFailure struct {
	sync.Mutex
	err error
}

// OutputFailed records an error of an output and returns it.
func OutputFailed(err error) error {
	outputFailure.Lock()
	defer outputFailure.Unlock()
	if outputFailure.err == nil {
		outputFailure.err = err
	}
	return err
}

// WithOutputError joins err with an output failure that err does not include.
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
		err = OutputFailed(err)
	}
	return n, err
}

func WriteJSON(out io.Writer, v any) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// IsTerminal tells whether somebody looks at what is written.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(f.Fd()))
}

// Plural counts things.
func Plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
