// Package host describes the machine that softrdma runs on: its network interfaces,
// addresses and routes. It chooses the address for an RDMA device, and watches the state
// of the device's interface. It sends no packets and changes no settings.
package host

import (
	"fmt"
	"net"
	"net/netip"
	"sort"
	"strconv"
)

// An Interface is a network interface with its addresses.
type Interface struct {
	Name      string
	Index     int
	MAC       net.HardwareAddr // empty if there is none
	MTU       int              // bytes of an IP packet
	Up        bool             // administratively up and running
	Loopback  bool
	SpeedMbps int          // 0 if unknown
	Addrs     []netip.Addr // unicast; link-local IPv6 with its zone
}

// Interfaces lists the network interfaces by index.
func Interfaces() ([]Interface, error) {
	list, err := interfaces()
	if err != nil {
		return nil, fmt.Errorf("list network interfaces: %w", err)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Index < list[j].Index })
	return list, nil
}

// withZone adds the interface's name as the zone of a link-local IPv6 address.
func withZone(a netip.Addr, name string) netip.Addr {
	a = a.Unmap()
	if a.Is6() && a.IsLinkLocalUnicast() {
		return a.WithZone(name)
	}
	return a.WithZone("")
}

// NamedZone returns an address with the interface's name as zone if the zone is a number,
// because addresses are compared.
func NamedZone(a netip.Addr) netip.Addr {
	if n, err := strconv.Atoi(a.Zone()); err == nil {
		if i, err := net.InterfaceByIndex(n); err == nil {
			return a.WithZone(i.Name)
		}
	}
	return a
}

// portable lists the interfaces with the standard library only.
func portable() ([]Interface, error) {
	ifs, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	var list []Interface
	for _, n := range ifs {
		i := Interface{
			Name: n.Name, Index: n.Index, MAC: n.HardwareAddr, MTU: n.MTU,
			Up: n.Flags&net.FlagUp != 0 && n.Flags&net.FlagRunning != 0, Loopback: n.Flags&net.FlagLoopback != 0,
		}
		addrs, err := n.Addrs()
		if err != nil {
			return nil, err
		}
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil && !p.Addr().IsMulticast() {
				i.Addrs = append(i.Addrs, withZone(p.Addr(), n.Name))
			}
		}
		list = append(list, i)
	}
	return list, nil
}
