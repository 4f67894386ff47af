//go:build !linux

package host

import (
	"errors"
	"fmt"
	"runtime"
)

// A Watcher follows the state of a port: see the one for Linux.
type Watcher struct{}

// Watch does nothing here and says so: its error wraps errors.ErrUnsupported.
func Watch(Choice, func(old, now PortState)) (*Watcher, error) {
	return nil, fmt.Errorf("watch network interfaces: %w on %s", errors.ErrUnsupported, runtime.GOOS)
}

// State has nothing to tell.
func (*Watcher) State() (s PortState, ok bool) { return s, false }

// Close has nothing to end.
func (*Watcher) Close() {}
