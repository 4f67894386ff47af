//go:build !linux

package samehost

import (
	"context"
	"net/netip"
	"time"

	"softrdma/internal/memory"
	"softrdma/internal/reason"
)

// A Host is a device's access to the memory path, which this system does not have.
type Host struct{}

// Open fails: the memory path needs Linux.
func Open(cfg Config) (*Host, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	return nil, unsupported().Err()
}

func unsupported() reason.Detail {
	return reason.Detail{Reason: reason.HostUnsupported, Expected: 1}
}

// Dir returns the empty string.
func (h *Host) Dir() string { return "" }

// Name returns the empty string.
func (h *Host) Name() string { return "" }

// Reach fails.
func (h *Host) Reach(addr netip.AddrPort, qpn uint32, limit time.Duration) error {
	return unsupported().Err()
}

// Why returns HOST_UNSUPPORTED.
func (h *Host) Why(peer netip.AddrPort, qpn uint32) reason.Detail { return unsupported() }

// View fails.
func (h *Host) View(ctx context.Context, peer netip.AddrPort, qpn, key uint32, addr uint64, n int) (*View, error) {
	return nil, unsupported().Err()
}

// ViewOwn fails.
func ViewOwn(s *memory.Segment, offset uint64, n int) (*View, error) { return nil, unshared() }

// RemoveSlot does nothing: no device is published.
func (h *Host) RemoveSlot(first, of int) {}

// Close does nothing.
func (h *Host) Close() error { return nil }

// Published fails.
func Published(dir string) (path string, list []Device, err error) {
	return dir, nil, unsupported().Err()
}

// RemoveNames does nothing: no device is published.
func RemoveNames() {}
