package verbs

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"

	"softrdma/internal/host"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
)

// Limits of every device.
const (
	MaxMessage      = 1 << 31 // bytes of one message
	MaxSGE          = 256     // entries of one work request
	MaxInline       = 4096    // bytes of inline data
	MaxQueueDepth   = 1 << 16 // work requests of a queue
	MaxCQDepth      = 1 << 22 // completions of a queue
	MaxReadAtomic   = 128     // READs and atomics in flight, either way
	MaxRegionLength = 1 << 46 // bytes of a region
)

// A GID is a global identifier: an IPv6 address or an IPv4-mapped IPv6 address (annex
// A17.4.1.1).
type GID [16]byte

// GIDFrom returns the GID of an address.
func GIDFrom(a netip.Addr) GID { return a.As16() }

// ParseGID parses what GID.String returns.
func ParseGID(s string) (GID, error) {
	a, err := netip.ParseAddr(s)
	if err != nil {
		return GID{}, reason.BadArgument(0, 0, "GID: expected an IPv6 or IPv4 address, found %q", s)
	}
	return a.As16(), nil
}

// Addr returns the address that the GID stands for, IPv4 unmapped.
func (g GID) Addr() netip.Addr { return netip.AddrFrom16(g).Unmap() }

// String returns the GID as an address, IPv4 as ::ffff:a.b.c.d.
func (g GID) String() string { return netip.AddrFrom16(g).String() }

// MarshalText returns what String returns, so a GID is a string in JSON.
func (g GID) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

// UnmarshalText parses what MarshalText returned.
func (g *GID) UnmarshalText(b []byte) (err error) {
	*g, err = ParseGID(string(b))
	return err
}

// A GIDEntry is a row of the port's GID table.
type GIDEntry struct {
	Index     int
	GID       GID
	Type      string // "RoCE v2", "RoCE v1", "iWARP" or "InfiniBand"
	Interface string // network interface that has the address
}

// gidTable returns the table of a device on an interface. A RoCE device cannot receive on
// another address, so every entry is its own address.
func gidTable(p Protocol, a netip.Addr, mac net.HardwareAddr, name string) []GIDEntry {
	if p == IWARP {
		return []GIDEntry{{0, interfaceGID(mac), p.String(), name}}
	}
	table := make([]GIDEntry, qp.RoCEGIDs)
	for i := range table {
		table[i] = GIDEntry{i, GIDFrom(a.WithZone("")), p.String(), name}
	}
	return table
}

// GIDs returns the nonempty entries of the port's current GID table. A RoCE device has its one
// address at several indices, as programs expect. The table is empty while the interface does
// not have the device's address.
func (d *Device) GIDs() []GIDEntry {
	if d.fabric != nil {
		return d.fabricGIDs()
	}
	if !d.state().Addr {
		return nil
	}
	return append([]GIDEntry(nil), d.gids...)
}

// GID returns the entry at index 0, which connections use.
func (d *Device) GID() GID {
	if d.fabric != nil {
		return d.fabric.FabricPort().GIDs[0]
	}
	return d.gids[0].GID
}

// A GUID is a 64-bit identifier.
type GUID uint64

// String returns the GUID as ibv_devinfo prints it: 0011:2233:4455:6677.
func (g GUID) String() string {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(g))
	return fmt.Sprintf("%02x%02x:%02x%02x:%02x%02x:%02x%02x", b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7])
}

// DeviceAttr are the capabilities and limits of a device (ibv_query_device).
type DeviceAttr struct {
	Name            string
	Transport       string    // "InfiniBand", also for RoCE, or "iWARP"
	NodeGUID        GUID      // of the device, made of its address and its interface's MAC address
	SysImageGUID    GUID      // of the interface, which may have several devices
	MaxMRSize       uint64    // bytes of a region
	MaxQPWR         int       // work requests of a queue
	MaxSGE          int       // entries of a work request
	MaxInline       int       // bytes
	MaxCQE          int       // completions of a queue
	MaxSRQWR        int       // requests of a shared receive queue
	MaxQPRdAtom     int       // as responder: limit of max_dest_rd_atomic
	MaxQPInitRdAtom int       // as requester: limit of max_rd_atomic
	AtomicCap       string    // "IBV_ATOMIC_GLOB": also against this CPU's atomics, on every path; iWARP: with peers that have RFC 7306
	AtomicWrite     bool      // OpAtomicWrite
	Flush           Placement // the placements that OpFlush supports
	XRC             bool      // OpenXRCD
	PhysPorts       int
	MaxPKeys        int
}

// Query returns the device's attributes.
func (d *Device) Query() DeviceAttr { return d.attr }

// setAnnex sets the features of annex A19 that devices of a protocol have.
func (a *DeviceAttr) setAnnex(p Protocol) {
	if p != IWARP {
		a.AtomicWrite, a.Flush = true, GlobalVisibility
	}
}

func attributes(name string, guid, system GUID, p Protocol) DeviceAttr {
	a := DeviceAttr{
		Name: name, Transport: p.transport(), NodeGUID: p.nodeGUID(guid), SysImageGUID: system,
		MaxMRSize: MaxRegionLength, MaxQPWR: MaxQueueDepth, MaxSGE: MaxSGE, MaxInline: MaxInline,
		MaxCQE: MaxCQDepth, MaxSRQWR: MaxQueueDepth, MaxQPRdAtom: MaxReadAtomic, MaxQPInitRdAtom: MaxReadAtomic,
		AtomicCap: "IBV_ATOMIC_GLOB", XRC: p != IWARP, PhysPorts: 1, MaxPKeys: 1,
	}
	a.setAnnex(p)
	return a
}

// PortAttr is the state of the port (ibv_query_port).
type PortAttr struct {
	Active    bool // the interface is up and running
	MaxMTU    int  // bytes
	ActiveMTU int  // bytes
	SpeedMbps int  // 0 if the system does not say
	GIDs      int
	PKey      uint16 // entry 0 of the P_Key table
	LinkLayer string // "Ethernet" or "InfiniBand"

	// The following fields are set only for ports of a fabric, by a subnet manager.
	State        PortState
	PKeys        []uint16 // the P_Key table; 0 for an empty entry
	LID          uint16   // the first of 1<<LMC; 0 if not assigned
	LMC          uint8
	SMLID        uint16 // of the master subnet manager
	SMSL         uint8  // service level to it
	SubnetPrefix uint64 // upper half of the GIDs
}

// A PortState is the state of a port of a fabric (IBTA 14.2.5.6). The numbers are those of
// ibv_port_state.
type PortState uint8

// The states.
const (
	PortDown   PortState = 1
	PortInit   PortState = 2
	PortArmed  PortState = 3
	PortActive PortState = 4
)

// QueryPort returns the port's current attributes.
func (d *Device) QueryPort() PortAttr {
	if d.fabric != nil {
		return d.queryFabric()
	}
	s := d.state()
	a := PortAttr{
		Active: s.Up, MaxMTU: 4096, ActiveMTU: d.drv.MTU(), SpeedMbps: d.choice.Interface.SpeedMbps,
		PKey: 0xffff, LinkLayer: "Ethernet",
	}
	if s.Addr {
		a.GIDs = len(d.gids)
	}
	return a
}

// DeviceInfo describes an address of this machine that Open accepts.
type DeviceInfo struct {
	Interface string
	Addr      netip.Addr
	GUID      GUID
	GID       GID
	Up        bool
	Loopback  bool
	LinkMTU   int // bytes, of the network interface
	ActiveMTU int // bytes; 0 if not even a path MTU of 256 fits
	SpeedMbps int
	MAC       string
	Best      bool // chosen by Open("")
	Why       []string

	system GUID

	// Protocol selects what Query, QueryPort and GIDs describe. Devices returns RoCE; every
	// address is a device of the other protocol as well.
	Protocol Protocol
}

// Query returns what Device.Query would return if the device were open.
func (i *DeviceInfo) Query() DeviceAttr { return attributes(i.Interface, i.GUID, i.system, i.Protocol) }

// QueryPort returns what Device.QueryPort would return if the device were open
// without Config.MTU.
func (i *DeviceInfo) QueryPort() PortAttr {
	return PortAttr{
		Active: i.Up, MaxMTU: 4096, ActiveMTU: i.ActiveMTU, SpeedMbps: i.SpeedMbps,
		GIDs: len(i.GIDs()), PKey: 0xffff, LinkLayer: "Ethernet",
	}
}

// GIDs returns what Device.GIDs would return if the device were open.
func (i *DeviceInfo) GIDs() []GIDEntry {
	mac, _ := net.ParseMAC(i.MAC) // fails if the interface has none
	return gidTable(i.Protocol, i.Addr, mac, i.Interface)
}

// Devices lists the addresses of this machine that Open accepts, the best first. It opens none
// of them.
func Devices() ([]DeviceInfo, error) {
	ifs, err := host.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list RDMA devices: %w", err)
	}
	best, bestErr := host.DefaultDevice()
	var list, rest []DeviceInfo
	for _, i := range ifs {
		for _, a := range i.Addrs {
			info := DeviceInfo{
				Interface: i.Name, Addr: a, GUID: GUID(host.GUID(i, a)), GID: GIDFrom(a.WithZone("")), Up: i.Up, Loopback: i.Loopback,
				system: GUID(host.SystemGUID(i, a)), LinkMTU: i.MTU, ActiveMTU: host.MTUFor(i.MTU), SpeedMbps: i.SpeedMbps, MAC: i.MAC.String(),
			}
			if bestErr == nil && best.Interface.Index == i.Index && best.Addr.Addr() == a {
				info.Best, info.Why = true, best.Why
				list = append(list, info)
			} else {
				rest = append(rest, info)
			}
		}
	}
	return append(list, rest...), nil
}
