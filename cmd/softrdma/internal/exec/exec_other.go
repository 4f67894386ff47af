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
