package rocev1

import (
	"net/netip"

	"softrdma/internal/frame"
	"softrdma/internal/link"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ethernet"
	"softrdma/internal/wire/ib"
)

// A source is where frames come from.
type source struct {
	frame.Source
	gids [2 * 16]byte // of the GRH, source and destination
	mac  ethernet.MAC
}

// Places in a GRH.
const (
	gidsAt = 8
	dgidAt = 24
)

// sources are the sources that frames came from lately, one for each hash of their GID.
type sources [128]*source

func hash(gid []byte) uint { return (uint(gid[13])*31 + uint(gid[14])*17 + uint(gid[15])) % 128 }

// from returns the source of a GID, nil if it is not known.
func (t *sources) from(gid netip.Addr) *source {
	b := gid.As16()
	if s := t[hash(b[:])]; s != nil && [16]byte(s.gids[:]) == b {
		return s
	}
	return nil
}

// Arrive implements frame.Network. It checks the GRH as IBTA 9.6.1.2 wants it, and
// removes what Ethernet padded a short frame with.
func (n *Network) Arrive(rx *link.Rx) (*frame.Source, reason.Detail) {
	var e ethernet.Header
	at := e.Parse(rx.Data)
	front := at + ib.GRHLen
	if at == 0 || len(rx.Data) < front {
		return nil, reason.Detail{Reason: reason.PacketShort, Expected: ethernet.HeaderLen + ib.GRHLen, Found: uint64(len(rx.Data))}
	}
	h := rx.Data[at:front]
	if version, next := h[0]>>4, h[6]; version != 6 || next != ib.NextBTH {
		return nil, reason.Detail{Reason: reason.PacketGRH, Expected: 6<<8 | ib.NextBTH, Found: uint64(version)<<8 | uint64(next)}
	}
	length := front + int(h[payLenAt])<<8 + int(h[payLenAt+1])
	if length > len(rx.Data) {
		return nil, reason.Detail{Reason: reason.PacketGRHLength, Expected: uint64(length - front), Found: uint64(len(rx.Data) - front)}
	}
	rx.Data, rx.Size = rx.Data[:length:length], length
	s := n.last
	if e.Src != s.mac || [32]byte(h[gidsAt:]) != s.gids {
		if s = n.find(&e, h); s == nil {
			return nil, reason.Detail{Reason: reason.PacketGID, Expected: low(n.gid), Found: low(netip.AddrFrom16([16]byte(h[dgidAt:])))}
		}
		n.last = s
	}
	s.Class = frame.Class{TrafficClass: h[classAt]<<4 | h[classAt+1]>>4, HopLimit: h[hopAt]}
	s.Front = front
	s.Begin()
	return &s.Source, reason.Detail{}
}

// find returns the source of a frame, nil if the frame has GIDs that no packet to
// this device has: the source's must be one host's, the destination's this device's or
// a group's.
func (n *Network) find(e *ethernet.Header, h []byte) *source {
	from, to := netip.AddrFrom16([16]byte(h[gidsAt:])).Unmap(), netip.AddrFrom16([16]byte(h[dgidAt:])).Unmap()
	if from.IsMulticast() || from.IsUnspecified() || to != n.gid && !to.IsMulticast() {
		return nil
	}
	at := &n.sources[hash(h[gidsAt:])]
	gids := [32]byte(h[gidsAt:])
	if s := *at; s != nil && s.gids == gids {
		s.mac = e.Src
		return s
	}
	*at = &source{Source: frame.Source{From: endpoint(from), To: endpoint(to), CRC: ICRCPrefix(from, to), Checker: &n.checker}, gids: gids, mac: e.Src}
	return *at
}

// low is the last eight bytes of a GID.
func low(a netip.Addr) (v uint64) {
	b := a.As16()
	for _, x := range b[8:] {
		v = v<<8 | uint64(x)
	}
	return v
}
