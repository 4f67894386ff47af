//go:build !linux

package tcp

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"time"

	"softrdma/internal/link"
)

// A Link cannot be had on this system.
type Link struct{ local netip.Addr }

// Open refuses.
func Open(local netip.Addr, _ Config) (*Link, error) {
	a, err := checkLocal(local)
	if err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("open TCP link on %v: iWARP devices want Linux, found %s: %w", a, runtime.GOOS, errors.ErrUnsupported)
}

// Listen refuses.
func (l *Link) Listen(uint16, int, any) (link.Listener, error) { return nil, errors.ErrUnsupported }

// Dial refuses.
func (l *Link) Dial(uint16, netip.AddrPort, uint8, any) (link.Stream, error) {
	return nil, errors.ErrUnsupported
}

// Ready refuses.
func (l *Link) Ready([]link.Readiness) (int, error) { return 0, errors.ErrUnsupported }

// Wait refuses.
func (l *Link) Wait(time.Duration) error { return errors.ErrUnsupported }

// Wake has nobody to wake.
func (l *Link) Wake() {}

// Close has nothing to close.
func (l *Link) Close() error { return nil }
