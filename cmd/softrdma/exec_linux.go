package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"softrdma/internal/uverbs"
	"softrdma/preload"
	"softrdma/verbs"
)

// execGrace is how long a program that was asked to end may take for it.
const execGrace = 10 * time.Second

// runExec serves a device to one program and its children, until it ends.
func runExec(cmd *cobra.Command, device string, verbose bool, args []string) (err error) {
	program, err := exec.LookPath(args[0])
	if err != nil {
		return err
	}
	library, err := preload.Library()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "softrdma-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "preload.so")
	if err := os.WriteFile(path, library, 0o755); err != nil {
		return err
	}
	dev, closeDevice, err := openDevice(cmd, device, verbs.Config{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeDevice()) }()
	cfg := uverbs.Config{Device: dev, Dir: dir}
	if verbose {
		cfg.Log = func(line string) { fmt.Fprintln(cmd.ErrOrStderr(), "softrdma:", line) }
	}
	server, err := uverbs.Serve(cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	if verbose {
		defer func() {
			for name, n := range dev.Counters() {
				fmt.Fprintf(cmd.ErrOrStderr(), "softrdma: %s %d\n", name, n)
			}
		}()
	}

	c := exec.CommandContext(cmd.Context(), program, args[1:]...)
	c.Args[0] = args[0]
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, cmd.OutOrStdout(), cmd.ErrOrStderr()
	c.Env = append(os.Environ(), server.Environment(path)...)
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = execGrace
	return programError(args[0], c.Run())
}

// programError makes the exit code that softrdma ends with of a program's end.
func programError(name string, err error) error {
	var e *exec.ExitError
	if !errors.As(err, &e) {
		return err
	}
	if s, ok := e.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		return &exitError{128 + int(s.Signal()), fmt.Errorf("%s: %v", name, s.Signal())}
	}
	return &exitError{e.ExitCode(), fmt.Errorf("%s: %w", name, err)}
}
