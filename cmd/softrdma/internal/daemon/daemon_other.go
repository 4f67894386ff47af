//go:build !linux

package daemon

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

// run says what is missing: the programs that it serves are Linux's.
func run(*cobra.Command, *options) error {
	return fmt.Errorf("daemon serves programs with Linux's libibverbs, not on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
