//go:build !linux

package main

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

// runDaemon says what is missing: the programs that it serves are Linux's.
func runDaemon(*cobra.Command, *daemonSettings) error {
	return fmt.Errorf("daemon serves programs with Linux's libibverbs, not on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
