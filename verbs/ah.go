package verbs

import (
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"

	"softrdma/internal/qp"
)

// An AddressVector is where a queue pair's or a datagram's packets go (IBTA
// 11.2.2, annex A17.4.2): the fields of ibv_ah_attr that RoCE v2 uses.
type AddressVector struct {
	DGID         GID    // the peer's address, or a multicast group's
	SGIDIndex    uint8  // 0: a device has one GID
	FlowLabel    uint32 // 20 bits; chooses one of at most four UDP source ports, which are random; where 0 the QP numbers do
	HopLimit     uint8  // 0 means 64
	TrafficClass uint8  // the upper six bits are the DSCP

	// UDPPort is the peer's UDP port; 0 means 4791, the only one that other
	// implementations listen on.
	UDPPort uint16
}

// path resolves the vector on a device.
func (d *Device) path(v *AddressVector) (qp.Path, error) {
	a := v.DGID.Addr()
	local := d.choice.Addr.Addr()
	switch {
	case v.SGIDIndex != 0:
		return qp.Path{}, fmt.Errorf("address: SGID index: expected 0, found %d", v.SGIDIndex)
	case v.DGID == GID{}:
		return qp.Path{}, fmt.Errorf("address: expected the peer's GID, found none")
	case v.FlowLabel >= 1<<20:
		return qp.Path{}, fmt.Errorf("address: flow label: expected 20 bits, found %#x", v.FlowLabel)
	case a.Is4() != local.Is4():
		return qp.Path{}, fmt.Errorf("address: the device is bound to %v, whose family differs from the peer's %v", local, a)
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
		FlowLabel: v.FlowLabel, TrafficClass: v.TrafficClass, HopLimit: v.HopLimit,
	}, nil
}

// An AH is an address handle: a resolved address for datagrams.
type AH struct {
	pd  *PD
	num uint32
	v   AddressVector

	gone atomic.Bool
}

// CreateAH makes an address handle (IBTA 11.2.2).
func (p *PD) CreateAH(v AddressVector) (*AH, error) {
	if p.dev.protocol == IWARP {
		return nil, fmt.Errorf("create AH: iWARP has no datagrams: %w", errors.ErrUnsupported)
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

// Query returns what the handle was made of.
func (h *AH) Query() AddressVector { return h.v }

// Destroy gives the handle up; datagrams that were not sent yet fail.
func (h *AH) Destroy() error {
	if h.gone.Swap(true) {
		return nil
	}
	return h.pd.drv.DestroyAH(h.num)
}
