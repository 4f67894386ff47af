//go:build !linux

package tcp

import (
	"net/netip"

	"softrdma/internal/link"
)

// Open opens the link of one local address. Any number of links, of this and other processes,
// may be open on an address, because each port is allocated separately.
func Open(local netip.Addr, cfg Config) (link.Streams, error) { return openConns(local, cfg, nil) }
