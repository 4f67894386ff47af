//go:build !linux

package verbs

import (
	"errors"
	"fmt"
	"runtime"

	"softrdma/internal/host"
)

// openRoCEv1 fails: RoCE v1 needs Linux.
func (s *Stack) openRoCEv1(c *host.Choice, _ *Config, _ int) (l links, err error) {
	return l, fmt.Errorf("RoCE v1 needs Linux's packet sockets, which %s has not; RoCE v2 works here: open %q: %w",
		runtime.GOOS, c.Addr.Addr(), errors.ErrUnsupported)
}
