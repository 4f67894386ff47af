//go:build !linux

package host

import (
	"errors"
	"fmt"
	"runtime"
)

// A Watcher follows the state of a port, on Linux only.
type Watcher struct{}

// Watch returns an error that wraps errors.ErrUnsupported.
func Watch(Choice, func(old, now PortState)) (*Watcher, error) {
	return nil, fmt.Errorf("watch network interfaces: %w on %s", errors.ErrUnsupported, runtime.GOOS)
}

// State returns false: there is no state.
func (*Watcher) State() (s PortState, ok bool) { return s, false }

// Close does nothing.
func (*Watcher) Close() {}
