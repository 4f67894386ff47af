package packet

import (
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// An iface describes the network interface of a link.
type iface struct {
	name     string
	index    int
	mac      [6]byte
	loopback int // index of the loopback interface, 0 if there is none

	// Frames leave by the interface transmit. It is the interface itself or, for a VLAN, the
	// interface below, where the link sends tagged frames.
	transmit int
	vlan     uint16
	tagged   bool
}

// findInterface looks an interface up. A VLAN's priority can only be chosen below the VLAN
// interface, which would add its own tag. If the interface below is in another network
// namespace, the VLAN interface adds the tag.
func findInterface(name string) (i iface, err error) {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return i, fmt.Errorf("interface %s: %w", name, err)
	}
	a := l.Attrs()
	i = iface{name: name, index: a.Index, transmit: a.Index}
	switch {
	case a.EncapType == "ether" && len(a.HardwareAddr) == 6:
		i.mac = [6]byte(a.HardwareAddr)
	case a.EncapType == "loopback": // its address is zero
	default:
		return i, fmt.Errorf("interface %s is of type %q: %w", name, a.EncapType, ErrInterface)
	}
	if v, ok := l.(*netlink.Vlan); ok && a.NetNsID < 0 && a.ParentIndex > 0 {
		i.transmit, i.vlan, i.tagged = a.ParentIndex, uint16(v.VlanId), true
	}
	if lo, err := netlink.LinkByName("lo"); err == nil {
		i.loopback = lo.Attrs().Index
	}
	return i, nil
}

// sockaddr returns where sendmsg sends frames by an interface.
func sockaddr(index int, etherType uint16) unix.RawSockaddrLinklayer {
	return unix.RawSockaddrLinklayer{
		Family: unix.AF_PACKET, Protocol: networkOrder(etherType), Ifindex: int32(index), Halen: 6,
	}
}

// isLocal reports whether an address is one of this host.
func isLocal(a netip.Addr) (bool, error) {
	if a.IsLoopback() {
		return true, nil
	}
	list, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return false, err
	}
	for _, x := range list {
		if own, ok := netip.AddrFromSlice(x.IP); ok && own.Unmap() == a {
			return true, nil
		}
	}
	return false, nil
}
