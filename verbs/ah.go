package verbs

import (
	"fmt"
	"net/netip"
	"sync/atomic"

	"softrdma/internal/qp"
	"softrdma/internal/reason"
)

// An AddressVector is the destination of a queue pair's packets or of a datagram
// (IBTA 11.2.2, annex A17.4.2). It has the fields of ibv_ah_attr.
type AddressVector struct {
	DGID         GID    // the peer's address, or a multicast group's; on a fabric zero for packets without a GRH
	SGIDIndex    uint8  // of the device's GID; all entries of a RoCE device's table are equal
	FlowLabel    uint32 // 20 bits; chooses one of at most four random UDP source ports; if 0 the QP numbers choose it
	HopLimit     uint8  // 0 means 64
	TrafficClass uint8  // the upper six bits are the DSCP

	// UDPPort is the peer's UDP port; 0 means 4791, the only one that other
	// implementations listen on. RoCE v1 has none.
	UDPPort uint16

	// DLID is the LID of the peer, or of a multicast group or a router, on a fabric. Other
	// networks have none.
	DLID uint16

	// PathBits are the low bits of the source LID, up to the port's LMC, on a fabric.
	PathBits uint8

	// ServiceLevel is 0 to 15. In RoCE v1 its low three bits are the 802.1p priority
	// of frames in a VLAN; RoCE v2 has no place for it.
	ServiceLevel uint8
}

// path returns the path that the vector selects on a device.
func (d *Device) path(v *AddressVector) (qp.Path, error) {
	if d.fabric != nil {
		return d.fabricPath(v)
	}
	a := v.DGID.Addr()
	local := d.choice.Addr.Addr()
	switch {
	case v.SGIDIndex >= qp.RoCEGIDs:
		return qp.Path{}, noGID(qp.RoCEGIDs, v.SGIDIndex)
	case v.DGID == GID{}:
		return qp.Path{}, reason.BadArgument(0, 0, "address: expected the peer's GID, found none")
	case v.ServiceLevel > 15:
		return qp.Path{}, reason.BadArgument(15, uint64(v.ServiceLevel), "address: service level: expected 0 to 15, found %d", v.ServiceLevel)
	case v.FlowLabel >= 1<<20:
		return qp.Path{}, reason.BadArgument(1<<20-1, uint64(v.FlowLabel), "address: flow label: expected 20 bits, found %#x", v.FlowLabel)
	case a.Is4() != local.Is4() && d.protocol != RoCEv1:
		return qp.Path{}, reason.BadArgument(0, 0, "address: expected the family of the device's address %v, found %v", local, a)
	}
	if a.IsLinkLocalUnicast() || a.IsLinkLocalMulticast() {
		a = a.WithZone(d.zone)
	}
	port := v.UDPPort
	if port == 0 {
		port = Port
	}
	return qp.Path{
		Dst: netip.AddrPortFrom(a, port), SGIDIndex: v.SGIDIndex,
		FlowLabel: v.FlowLabel, TrafficClass: v.TrafficClass, HopLimit: v.HopLimit, ServiceLevel: v.ServiceLevel,
	}, nil
}

// noGID refuses an index without an entry in the GID table.
func noGID(entries int, index uint8) error {
	return fmt.Errorf("address: %w", reason.Detail{Reason: reason.GIDIndex, Expected: uint64(entries - 1), Found: uint64(index)}.Err())
}

// fabricPath implements path on a port of a fabric.
func (d *Device) fabricPath(v *AddressVector) (qp.Path, error) {
	switch gids := d.fabric.FabricPort().GIDs; {
	case v.DLID == 0 || v.DLID == 0xffff:
		return qp.Path{}, reason.BadArgument(0xfffe, uint64(v.DLID), "address: DLID: expected that of a port or of a multicast group, found %d", v.DLID)
	case v.DGID != GID{} && (int(v.SGIDIndex) >= len(gids) || gids[v.SGIDIndex] == GID{}):
		return qp.Path{}, noGID(len(gids), v.SGIDIndex)
	case v.FlowLabel >= 1<<20:
		return qp.Path{}, reason.BadArgument(1<<20-1, uint64(v.FlowLabel), "address: flow label: expected 20 bits, found %#x", v.FlowLabel)
	}
	p := qp.Path{
		Dst: qp.LIDEndpoint(v.DLID), FlowLabel: v.FlowLabel, TrafficClass: v.TrafficClass, HopLimit: v.HopLimit,
		ServiceLevel: v.ServiceLevel, PathBits: v.PathBits,
	}
	if v.DGID != (GID{}) {
		p.Dst, p.SGIDIndex = netip.AddrPortFrom(netip.AddrFrom16(v.DGID), v.DLID), v.SGIDIndex
	}
	return p, qp.Validate(qp.MaskAV, &qp.Attr{Path: p})
}

// An AH is an address handle: the destination of datagrams.
type AH struct {
	pd  *PD
	num uint32
	v   AddressVector

	gone atomic.Bool
}

// CreateAH makes an address handle (IBTA 11.2.2).
func (p *PD) CreateAH(v AddressVector) (*AH, error) {
	if p.dev.protocol == IWARP {
		return nil, reason.NotSupported("create AH: iWARP has no datagrams")
	}
	path, err := p.dev.path(&v)
	if err != nil {
		return nil, fmt.Errorf("create AH: %w", err)
	}
	num, err := p.drv.CreateAH(path)
	if err != nil {
		return nil, fmt.Errorf("create AH: %w", err)
	}
	return &AH{pd: p, num: num, v: v}, nil
}

// Query returns the address vector of CreateAH.
func (h *AH) Query() AddressVector { return h.v }

// Destroy destroys the handle. Datagrams that were not sent yet fail. A second Destroy does
// nothing.
func (h *AH) Destroy() error {
	if h.gone.Swap(true) {
		return nil
	}
	return h.pd.drv.DestroyAH(h.num)
}
