//go:build !linux || softrdma_portable

package udp

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
)

// Slots are the sockets of an address that programs share. Only Linux can steer packets to
// them.
type Slots struct{}

// OpenSlots fails.
func OpenSlots(local netip.AddrPort, _ Config, _, _ int) ([]*Link, *Slots, error) {
	return nil, nil, noSlots(local)
}

// OpenSlot fails.
func OpenSlot(_ []int, local netip.AddrPort, _ Config) (*Link, error) { return nil, noSlots(local) }

// Key is never called.
func (*Slots) Key() [16]byte { return [16]byte{} }

// Take is never called.
func (*Slots) Take() (lane int, fds []int, err error) { return 0, nil, errors.ErrUnsupported }

// Give is never called.
func (*Slots) Give(int) {}

// Close is never called.
func (*Slots) Close() {}

// CheckNetwork has nothing to check.
func CheckNetwork(int) error { return nil }

func noSlots(local netip.AddrPort) error {
	return fmt.Errorf("open UDP link on %v: programs cannot share an address on %s, which cannot steer packets: %w", local, runtime.GOOS, errors.ErrUnsupported)
}
