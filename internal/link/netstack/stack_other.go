//go:build !linux

package netstack

import (
	"net/netip"

	"softrdma/internal/link/fabric"
	"softrdma/internal/link/tcp"
	"softrdma/internal/reason"
)

// A Stack is a TCP stack at a port. It exists only on Linux, as ports do.
type Stack struct{ tcp.Network }

// Open fails.
func Open(*fabric.Link, netip.Addr, int) (*Stack, error) {
	return nil, reason.NotSupported("programs attach to a fabric on Linux only")
}

// Probe does nothing.
func (s *Stack) Probe(netip.Addr) {}

// Close calls end.
func (s *Stack) Close(end func() error) error { return end() }
