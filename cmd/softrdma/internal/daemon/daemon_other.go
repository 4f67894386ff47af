//go:build !linux

package daemon

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

// run fails, because only Linux has the programs that it would serve.
func run(*cobra.Command, *options) error {
	return fmt.Errorf("daemon serves programs with Linux's libibverbs, not on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
