package link

import (
	"net/netip"
	"time"

	"golang.org/x/net/bpf"
)

// Frames is a link that carries Ethernet frames by one interface.
type Frames interface {
	Packets

	// MAC returns the interface's address.
	MAC() [6]byte

	// VLAN returns the VLAN that frames must be tagged with, and false if they must not be tagged.
	VLAN() (id uint16, tagged bool)

	// Wire is the flow of frames that leave by the interface, Host of those to devices on this
	// host, whose MAC address is zero, and Everywhere of those to a group.
	Wire() *Flow
	Host() *Flow
	Everywhere() *Flow

	// Known returns what the system knows of an IP address. Any goroutine may call it.
	Known(ip netip.Addr) (Neighbour, error)

	// Ask makes the system ask the network for the MAC address of an IP address, and waits for the
	// answer for a limited time. Any goroutine may call it.
	Ask(ip netip.Addr, wait time.Duration) (mac [6]byte, err error)

	// Filter sets the program that accepts received frames, given from the Ethernet header on
	// without a tag.
	Filter(accept []bpf.Instruction) error

	// JoinMAC and LeaveMAC begin and end receiving frames to a multicast MAC address.
	JoinMAC(mac [6]byte) error
	LeaveMAC(mac [6]byte) error
}

// A Neighbour is what the system knows of an IP address.
type Neighbour struct {
	Local  bool // an address of this host
	Known  bool // MAC is the address's
	Asking bool // the system is asking the network
	MAC    [6]byte
}
