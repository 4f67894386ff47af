//go:build !linux

package cdi

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

func unsupported() error {
	return fmt.Errorf("cdi is for containers of Linux, not on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

func generate(*cobra.Command, *options) error      { return unsupported() }
func list(*cobra.Command, *options) error          { return unsupported() }
func remove(*cobra.Command, *options) error        { return unsupported() }
func flags(*cobra.Command, *options, string) error { return unsupported() }
