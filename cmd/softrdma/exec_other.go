//go:build !linux

package main

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

// runExec says what is missing: the libraries that programs use are Linux's.
func runExec(*cobra.Command, *execSettings, []string) error {
	return fmt.Errorf("exec runs programs with Linux's libibverbs, not on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
