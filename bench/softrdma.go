package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/term"
)

// source is the directory of softrdma's source, which is above this module's.
const source = ".."

// buildSoftrdma builds the command that is measured and returns its file, and a function that
// removes it.
func buildSoftrdma(ctx context.Context) (file string, remove func(), err error) {
	if _, err := os.Stat(filepath.Join(source, "cmd", "softrdma")); err != nil {
		return "", nil, errors.New("softrdma's source is not in the directory above: start bench in its own directory (cd bench && go run .), or name the command with --softrdma")
	}
	dir, err := os.MkdirTemp("", "softrdma-bench-")
	if err != nil {
		return "", nil, err
	}
	remove = func() { os.RemoveAll(dir) }
	file = filepath.Join(dir, "softrdma")
	if runtime.GOOS == "windows" {
		file += ".exe"
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-o", file, "./cmd/softrdma")
	cmd.Dir, cmd.Env = source, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		remove()
		return "", nil, fmt.Errorf("build softrdma: %w\n%s", err, out)
	}
	return file, remove, nil
}

// writeJSON writes v as indented JSON.
func writeJSON(out io.Writer, v any) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// oneLine returns a message without line breaks.
func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(c rune) bool { return c == '\n' || c == '\r' }), "; ")
}

// plural returns "1 thing" or "n things".
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
