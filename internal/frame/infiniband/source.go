package infiniband

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"softrdma/internal/frame"
	"softrdma/internal/link"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// A source is where packets come from. Its packets have the same headers, except for lengths,
// virtual lane and what routers change.
type source struct {
	frame.Source
	lrh  uint64       // with virtual lane and length masked
	gids [2 * 16]byte // of the GRH, source and destination; zero without one
}

// sources are the sources that packets came from lately, one for each hash of their LRH.
type sources [128]*source

func hash(lrh uint64) uint64 { return (lrh*31 + lrh>>20*7 + lrh>>52) % 128 }

// routeMask leaves of an LRH what does not differ between the packets of a source.
const routeMask = 0x0fff_ffff_0000_ffff

// Arrive implements frame.Network. It checks the LRH and the GRH (IBTA 7.7, 9.6.1.2).
func (n *Network) Arrive(rx *link.Rx) (*frame.Source, reason.Detail) {
	b := rx.Data
	var h ib.LRH
	if !h.Parse(b) {
		return nil, reason.Detail{Reason: reason.PacketShort, Expected: ib.LRHLen + ib.BTHLen + ib.ICRCLen, Found: uint64(len(b))}
	}
	if h.Version != 0 || h.Next != ib.LocalBTH && h.Next != ib.GlobalGRH {
		return nil, reason.Detail{Reason: reason.PacketLRH, Expected: uint64(ib.LocalBTH), Found: uint64(h.Version)<<8 | uint64(h.Next)}
	}
	front, length := h.HeaderLen(), 4*int(h.Words)
	if length != min(rx.Size, len(b)) || length < front+ib.BTHLen+ib.ICRCLen {
		return nil, reason.Detail{Reason: reason.PacketLRHLength, Expected: uint64(length), Found: uint64(len(b))}
	}
	var g []byte
	if h.Next == ib.GlobalGRH {
		g = b[ib.LRHLen:front]
		if version, next := g[0]>>4, g[6]; version != 6 || next != ib.NextBTH {
			return nil, reason.Detail{Reason: reason.PacketGRH, Expected: 6<<8 | ib.NextBTH, Found: uint64(version)<<8 | uint64(next)}
		}
		if n := int(binary.BigEndian.Uint16(g[payLenAt:])); n != length-front {
			return nil, reason.Detail{Reason: reason.PacketGRHLength, Expected: uint64(n), Found: uint64(length - front)}
		}
	}
	s := n.last
	if route := binary.BigEndian.Uint64(b) & routeMask; route != s.lrh || g != nil && [32]byte(g[gidsAt:]) != s.gids || !n.mine(h.DLID) {
		var why reason.Detail
		if s, why = n.find(route, &h, g); s == nil {
			return nil, why
		}
		n.last = s
	}
	s.Class = frame.Class{ServiceLevel: h.SL}
	if g != nil {
		s.Class.TrafficClass, s.Class.HopLimit = g[0]<<4|g[1]>>4, g[hopAt]
	}
	s.Begin()
	return &s.Source, reason.Detail{}
}

// mine reports whether a packet to the LID is for this port: one of its own, or that of a
// group, which the GRH tells.
func (n *Network) mine(lid ib.LID) bool {
	first := ib.LID(n.port.LID)
	return lid >= first && lid < first+1<<n.port.LMC && first != 0 || lid.Multicast()
}

// find returns the source of a packet, or nil and the reason why no packet to this port
// has such headers.
func (n *Network) find(route uint64, h *ib.LRH, grh []byte) (*source, reason.Detail) {
	if !n.mine(h.DLID) || h.DLID.Multicast() && grh == nil {
		return nil, reason.Detail{Reason: reason.PacketLID, Expected: uint64(n.port.LID), Found: uint64(h.DLID)}
	}
	if h.SLID == 0 || h.SLID >= ib.MulticastLID {
		return nil, reason.Detail{Reason: reason.PacketSLID, Expected: uint64(ib.MulticastLID - 1), Found: uint64(h.SLID)}
	}
	s := &source{lrh: route}
	s.Checker, s.Front = &n.checker, h.HeaderLen()
	s.LRH = qp.LinkRoute{Present: true, Global: grh != nil, SL: h.SL, PathBits: uint8(h.DLID) & (1<<n.port.LMC - 1)}
	if grh == nil {
		s.From, s.To, s.CRC = qp.LIDEndpoint(uint16(h.SLID)), qp.LIDEndpoint(uint16(h.DLID)), localPrefix(*h)
	} else {
		s.gids = [32]byte(grh[gidsAt:])
		from, to := [16]byte(s.gids[:16]), [16]byte(s.gids[16:])
		sgid, dgid := netip.AddrFrom16(from), netip.AddrFrom16(to)
		if sgid.IsMulticast() || sgid.IsUnspecified() || !slices.Contains(n.port.GIDs, dgid) && !slices.Contains(n.groups, dgid) {
			return nil, reason.Detail{Reason: reason.PacketGID, Expected: low(n.gid(0)), Found: low(dgid)}
		}
		s.From, s.To, s.CRC = Global(sgid, uint16(h.SLID)), Global(dgid, uint16(h.DLID)), globalPrefix(from, to)
	}
	at := &n.sources[hash(route)]
	if k := *at; k != nil && k.lrh == route && k.gids == s.gids {
		return k, reason.Detail{}
	}
	*at = s
	return s, reason.Detail{}
}

// low is the last eight bytes of a GID.
func low(a netip.Addr) uint64 {
	b := a.As16()
	return binary.BigEndian.Uint64(b[8:])
}
