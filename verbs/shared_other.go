//go:build !linux

package verbs

import (
	"runtime"

	"softrdma/internal/reason"
)

// openShared fails: shared addresses need Linux.
func (*Stack) openShared(string, *Config) (*Device, error) {
	return nil, reason.NotSupported("a shared address: packets can be steered to programs on Linux only, not on %s", runtime.GOOS)
}
