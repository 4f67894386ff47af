//go:build !linux

package verbs

import (
	"context"
	"runtime"

	"softrdma/internal/reason"
)

// openSlot fails: shared addresses need Linux.
func (*Stack) openSlot(_ context.Context, name string, _ *Config) (*Device, error) {
	return nil, openNamed(sharedPrefix, name, reason.NotSupported("a shared address: packets can be steered to programs on Linux only, not on %s", runtime.GOOS))
}
