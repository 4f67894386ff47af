package cli

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"github.com/spf13/cobra"

	"softrdma/verbs"
)

// maxAlternatives is how many other addresses or ports are tried where the first
// choice is in use by another device.
const maxAlternatives = 8

// An Device is a device with the function that closes it, see OpenDevice.
type Device struct {
	*verbs.Device
	Close func() error
}

// Candidates are the devices to try when the user named none and peers on
// this machine are to be reached at addr: first addr itself, then other
// loopback addresses, which not every system has, then other UDP ports, which
// only softrdma knows.
//
// Of iWARP it is one: any number of processes can have an address.
func Candidates(addr netip.Addr, protocol Protocol) []string {
	if protocol.IWARP() {
		return []string{IWARPPrefix + addr.String()}
	}
	names := []string{addr.String()}
	if addr.Is4() && addr.IsLoopback() {
		for a := addr.Next(); len(names) <= maxAlternatives; a = a.Next() {
			names = append(names, a.String())
		}
	}
	for i := range uint16(maxAlternatives) {
		names = append(names, netip.AddrPortFrom(addr, verbs.Port+1+i).String())
	}
	return names
}

// OpenFirst opens the first of the devices that is there and not in use.
func OpenFirst(cmd *cobra.Command, names []string) (Device, error) {
	var first error
	for _, name := range names {
		dev, closeDevice, err := OpenDevice(cmd, name, verbs.Config{})
		if err == nil {
			return Device{Device: dev, Close: closeDevice}, nil
		}
		if first == nil {
			first = err
		}
		if len(names) == 1 || !AddressTaken(err) {
			return Device{}, err
		}
	}
	return Device{}, fmt.Errorf("%w (nor is any of %s to %s free)", first, names[1], names[len(names)-1])
}

// AddressTaken tells whether an address is in use by another device, or is none
// of this machine: macOS and Windows have no loopback address but 127.0.0.1.
func AddressTaken(err error) bool {
	const (
		wsaAddrInUse    = syscall.Errno(10048) // Windows' numbers, which nobody else uses
		wsaAddrNotAvail = syscall.Errno(10049)
	)
	for _, no := range []syscall.Errno{syscall.EADDRINUSE, syscall.EADDRNOTAVAIL, wsaAddrInUse, wsaAddrNotAvail} {
		if errors.Is(err, no) {
			return true
		}
	}
	return false
}
