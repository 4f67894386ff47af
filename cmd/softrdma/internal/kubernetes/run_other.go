//go:build !linux

package kubernetes

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

// run fails, because only Linux has the libraries that programs use.
func run(*cobra.Command, *options) error {
	return fmt.Errorf("device-plugin serves containers of Linux, not of %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
