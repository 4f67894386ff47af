package exec

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"softrdma/cmd/softrdma/internal/cli"
)

// administrators are directories in which distributions have programs of administrators, such as
// those of infiniband-diags. They are not in the PATH of other users.
var administrators = []string{"/usr/sbin", "/sbin"}

// lookPath returns the path of a program of the PATH, or else of one of the directories.
func lookPath(name string, dirs ...string) (string, error) {
	path, err := exec.LookPath(name)
	if errors.Is(err, exec.ErrNotFound) {
		for _, dir := range dirs {
			if path, e := exec.LookPath(filepath.Join(dir, name)); e == nil && filepath.Base(name) == name {
				return path, nil
			}
		}
	}
	return path, cli.StartError(err)
}

// cancel passes on the signal that has ended ctx. The terminal has sent SIGINT to the program as well.
func cancel(ctx context.Context, p *os.Process) error {
	s := cli.Signal(ctx)
	if s == os.Interrupt && cli.IsTerminal(os.Stdin) {
		return nil
	}
	return p.Signal(s)
}

// programError returns an error with the exit code that softrdma takes over from the
// program, also when a signal has ended both.
func programError(ctx context.Context, name string, err error) error {
	var e *exec.ExitError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return cli.ErrSignalled // the program has ended in order
	case !errors.As(err, &e):
		return cli.StartError(err)
	}
	if s, ok := e.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		return cli.ProgramError(128+int(s.Signal()), fmt.Errorf("%s: %v", name, s.Signal()))
	}
	return cli.ProgramError(e.ExitCode(), fmt.Errorf("%s: %w", name, err))
}
