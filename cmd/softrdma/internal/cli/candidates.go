package cli

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"github.com/spf13/cobra"

	"softrdma/verbs"
)

// maxAlternatives is the number of other addresses or ports to try if the first choice
// is in use.
const maxAlternatives = 8

// Candidates returns the devices to try if the user named none and peers on this
// machine reach it at addr: addr itself, then other loopback addresses, which not every
// system has, then other UDP ports, which only softrdma can use.
//
// For iWARP it returns one device, because any number of processes can share an
// address.
func Candidates(addr netip.Addr, protocol Protocol) []string {
	if protocol.IWARP() {
		return []string{iwarpPrefix + addr.String()}
	}
	names := []string{protocol.prefix() + addr.String()}
	if addr.Is4() && addr.IsLoopback() {
		for a := addr.Next(); len(names) <= maxAlternatives; a = a.Next() {
			names = append(names, protocol.prefix()+a.String())
		}
	}
	if protocol == ProtocolRoCEv1 { // has no ports
		return names
	}
	for i := range uint16(maxAlternatives) {
		names = append(names, netip.AddrPortFrom(addr, verbs.Port+1+i).String())
	}
	return names
}

// OpenFirst opens the first of the devices that exists and is not in use.
func OpenFirst(cmd *cobra.Command, names []string, cfg verbs.Config) (Device, error) {
	var first error
	for _, name := range names {
		dev, err := OpenDevice(cmd, name, cfg)
		if err == nil {
			return dev, nil
		}
		if first == nil {
			first = err
		}
		if len(names) == 1 || !AddressTaken(err) {
			return Device{}, err
		}
	}
	return Device{}, fmt.Errorf("%w (%s to %s are in use as well)", first, names[1], names[len(names)-1])
}

// AddressTaken reports whether err says that an address is in use by another device or
// does not belong to this machine. macOS and Windows have no loopback address but
// 127.0.0.1.
func AddressTaken(err error) bool {
	const (
		wsaAddrInUse    = syscall.Errno(10048) // Windows error numbers, which no other system uses
		wsaAddrNotAvail = syscall.Errno(10049)
	)
	for _, no := range []syscall.Errno{syscall.EADDRINUSE, syscall.EADDRNOTAVAIL, wsaAddrInUse, wsaAddrNotAvail} {
		if errors.Is(err, no) {
			return true
		}
	}
	return false
}
