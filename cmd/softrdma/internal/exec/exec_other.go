//go:build !linux

package exec

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

// run says what is missing: the libraries that programs use are Linux's.
func run(*cobra.Command, *options, []string) error {
	return fmt.Errorf("exec runs programs with Linux's libibverbs, not on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
