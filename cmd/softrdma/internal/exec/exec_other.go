//go:build !linux

package exec

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

// run fails, because only Linux has the libraries that programs use.
func run(*cobra.Command, *options, []string) error {
	return fmt.Errorf("exec runs programs with Linux's libibverbs, not on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

// printEnvironment fails for the same reason.
func printEnvironment(*cobra.Command, *options, format) error {
	return fmt.Errorf("env is for programs with Linux's libibverbs, not on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
