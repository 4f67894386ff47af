//go:build !linux

package loop

import (
	"errors"
	"fmt"
	"syscall"
)

// chooseControl returns nil: the system's congestion control is used.
func chooseControl(string) func(_, _ string, _ syscall.RawConn) error { return nil }

func CheckControl(name string) error {
	return fmt.Errorf("set TCP's congestion control to %s: %w", name, errors.ErrUnsupported)
}
