//go:build !linux

package verbs

import (
	"runtime"
	"softrdma/internal/reason"
)

// openDaemon fails: daemons need Linux.
func (*Stack) openDaemon(string, *Config) (*Device, error) {
	return nil, reason.NotSupported("a daemon's device: a daemon accesses the memory of its programs on Linux only, not on %s", runtime.GOOS)
}
