//go:build !linux

package verbs

import (
	"errors"
	"fmt"
	"runtime"
)

// openDaemon says what is missing.
func (*Stack) openDaemon(string, *Config) (*Device, error) {
	return nil, fmt.Errorf("a daemon reaches the memory of its programs on Linux alone, not on %s: open a device of this process: %w",
		runtime.GOOS, errors.ErrUnsupported)
}
