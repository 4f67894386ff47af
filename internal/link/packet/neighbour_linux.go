package packet

import (
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"softrdma/internal/link"
)

const (
	// known are the states of an entry in which its MAC address may be used.
	known = netlink.NUD_REACHABLE | netlink.NUD_STALE | netlink.NUD_DELAY | netlink.NUD_PROBE | netlink.NUD_PERMANENT | netlink.NUD_NOARP

	discardPort = 9 // RFC 863

	askPause = 100 * time.Microsecond // between two lookups in the table
)

// Known returns the system's table entry of an IP address on the link's interface.
func (l *Link) Known(ip netip.Addr) (n link.Neighbour, err error) {
	ip = ip.Unmap().WithZone("")
	here, err := isLocal(ip)
	if err != nil {
		return n, &link.NeighbourError{Addr: ip, Interface: l.iface.name, Err: err}
	}
	if here {
		return link.Neighbour{Local: true}, nil
	}
	family := netlink.FAMILY_V6
	if ip.Is4() {
		family = netlink.FAMILY_V4
	}
	list, err := netlink.NeighList(l.iface.index, family)
	if err != nil {
		return n, &link.NeighbourError{Addr: ip, Interface: l.iface.name, Err: err}
	}
	for _, x := range list {
		a, is := netip.AddrFromSlice(x.IP)
		if !is || a.Unmap() != ip {
			continue
		}
		n.Asking = x.State&netlink.NUD_INCOMPLETE != 0
		if x.State&known != 0 && len(x.HardwareAddr) == 6 {
			n.Known, n.MAC = true, [6]byte(x.HardwareAddr)
		}
	}
	return n, nil
}

// Ask makes the system ask the network for the MAC address of an IP address (ARP, neighbour
// discovery), and waits for the answer for a limited time. A *link.NeighbourError means that
// there was none so far.
func (l *Link) Ask(ip netip.Addr, wait time.Duration) (mac [6]byte, err error) {
	ip = ip.Unmap().WithZone("")
	if err := l.ask(ip); err != nil {
		return mac, &link.NeighbourError{Addr: ip, Interface: l.iface.name, Err: err}
	}
	for end := time.Now().Add(wait); ; time.Sleep(askPause) {
		n, err := l.Known(ip)
		if n.Known || err != nil {
			return n.MAC, err
		}
		if !time.Now().Before(end) {
			return mac, &link.NeighbourError{Addr: ip, Interface: l.iface.name}
		}
	}
}

// ask makes the system resolve an address, by sending an empty datagram to its discard port
// directly through this interface.
func (l *Link) ask(ip netip.Addr) error {
	family, to := unix.AF_INET6, unix.Sockaddr(&unix.SockaddrInet6{Port: discardPort, Addr: ip.As16(), ZoneId: uint32(l.iface.index)})
	if ip.Is4() {
		family, to = unix.AF_INET, &unix.SockaddrInet4{Port: discardPort, Addr: ip.As4()}
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.BindToDevice(fd, l.iface.name); err != nil {
		return err
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DONTROUTE, 1); err != nil {
		return err
	}
	return unix.Sendto(fd, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, to)
}
