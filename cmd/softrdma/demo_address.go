package main

import (
	"fmt"
	"net/netip"

	"softrdma/verbs"
)

var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// nextPort is the device on the same address with the next UDP port.
func nextPort(name string) (string, error) {
	if p, err := netip.ParseAddrPort(name); err == nil {
		return netip.AddrPortFrom(p.Addr(), p.Port()+1).String(), nil
	}
	a, err := netip.ParseAddr(name)
	if err != nil {
		return "", fmt.Errorf("expected an address such as 127.0.0.1 or ::1, found %q", name)
	}
	return netip.AddrPortFrom(a, verbs.Port+1).String(), nil
}
