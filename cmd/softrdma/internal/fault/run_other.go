//go:build !linux

package fault

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"
)

// execute fails, because only Linux has the libraries that programs use.
func execute(context.Context, []string, []string, time.Duration) (*outcome, bool, error) {
	return nil, false, fmt.Errorf("fault run runs programs with Linux's libibverbs, not on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
