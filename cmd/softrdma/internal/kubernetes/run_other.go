//go:build !linux || !kubernetes

package kubernetes

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

// run fails: only Linux has the libraries that programs use, and the packages of kubelet's API open
// a file at the start of every command, so ordinary builds do without them.
func run(*cobra.Command, *options) error {
	return fmt.Errorf("device-plugin: expected a build for Linux with -tags kubernetes, such as the container image, found one for %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
