//go:build !linux

package bench

import (
	"errors"
	"fmt"
	"syscall"
)

// chooseControl leaves the choice to the system.
func chooseControl(string) func(_, _ string, _ syscall.RawConn) error { return nil }

func lackControl(name string) error {
	return fmt.Errorf("choosing TCP's congestion control %s: %w", name, errors.ErrUnsupported)
}
