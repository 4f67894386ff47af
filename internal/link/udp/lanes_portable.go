//go:build !linux || softrdma_portable

package udp

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
)

// OpenLanes opens the only link of a local address. Other systems than Linux cannot steer
// packets to one of several sockets.
func OpenLanes(local netip.AddrPort, cfg Config, n int) ([]*Link, error) {
	if n != 1 {
		return nil, fmt.Errorf("open UDP link on %v: lanes: expected 1 on %s, which cannot steer packets, found %d: %w",
			local, runtime.GOOS, n, errors.ErrUnsupported)
	}
	l, err := Open(local, cfg)
	if err != nil {
		return nil, err
	}
	return []*Link{l}, nil
}
