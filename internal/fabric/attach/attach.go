package attach

import (
	"net/netip"
	"slices"

	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/smp"
)

// An Info describes a port. It never changes.
type Info struct {
	Up     bool   // the fabric answers; after its end the other fields keep their last values
	Fabric string // name
	Node   string // its description, or its ID if another node has the same description
	Port   uint8

	NodeInfo    smp.NodeInfo
	Description string

	// PortInfo is as the port's agent answers, without the M_Key. While the fabric does not
	// answer, the port is down.
	PortInfo smp.PortInfo

	GUIDs []uint64 // by index; 0 if unset
	PKeys []uint16 // by index; 0 if unset

	// Addrs are the port's IP addresses by the table of the fabric.
	Addrs []netip.Addr

	// Ethernet is what a port of an Ethernet has, where NodeInfo has the GUID of the node only, and
	// PortInfo the state only. It is nil for a port of an InfiniBand subnet.
	Ethernet *EthernetInfo
}

// An EthernetInfo describes a port of an Ethernet.
type EthernetInfo struct {
	MAC       [6]byte
	Prefix    netip.Prefix // of the IPv4 addresses of all hosts
	Prefix6   netip.Prefix // of their IPv6 addresses
	MTU       int          // bytes of the longest IP packet
	SpeedMbps int
}

// Address returns the port's name.
func (i *Info) Address() Address { return Address{Fabric: i.Fabric, Node: i.Node, Port: i.Port} }

// An Event says why an Info replaced another one.
type Event uint8

// The events. If several happened at once, each is reported, with the same two Infos.
const (
	InfoChanged      Event = iota // none of the others
	PortActive                    // the state became active
	PortError                     // the state was active
	FabricGone                    // the fabric does not answer any more
	FabricBack                    // it does again
	LIDChanged                    // LID or LMC
	ManagerChanged                // LID or service level of the master subnet manager
	ClientReregister              // the manager asks for new subscriptions and joins
	PartitionsChanged
	GUIDsChanged
	PrefixChanged
)

// A Departure is a packet that a program sends from queue pair 0.
type Departure struct {
	DLID uint16 // the permissive LID (0xffff) for a directed route
	SL   uint8
	MAD  [mad.Len]byte
}

// An Arrival is a packet of queue pair 0 that neither an agent nor a manager of the node
// has taken.
type Arrival struct {
	SLID, DLID uint16
	SL         uint8
	SourceQPN  uint32
	MAD        *[mad.Len]byte // valid until the call returns
}

// changes returns the events that lead from one Info to another.
func changes(old, now *Info) (list []Event) {
	was, is := &old.PortInfo, &now.PortInfo
	for _, c := range []struct {
		event   Event
		changed bool
	}{
		{FabricBack, !old.Up && now.Up},
		{LIDChanged, was.LID != is.LID || was.LMC != is.LMC},
		{ManagerChanged, was.MasterSMLID != is.MasterSMLID || was.MasterSMSL != is.MasterSMSL},
		{PrefixChanged, was.GIDPrefix != is.GIDPrefix},
		{PartitionsChanged, !slices.Equal(old.PKeys, now.PKeys)},
		{GUIDsChanged, !slices.Equal(old.GUIDs, now.GUIDs)},
		{PortActive, was.State != smp.PortActive && is.State == smp.PortActive},
		{PortError, was.State == smp.PortActive && is.State != smp.PortActive},
		{FabricGone, old.Up && !now.Up},
	} {
		if c.changed {
			list = append(list, c.event)
		}
	}
	return list
}
