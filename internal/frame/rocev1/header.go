package rocev1

import (
	"net/netip"

	"softrdma/internal/frame"
	"softrdma/internal/link"
	"softrdma/internal/qp"
	"softrdma/internal/wire/ethernet"
	"softrdma/internal/wire/ib"
)

// maxHeaderLen is the length of the longest header in front of a BTH.
const maxHeaderLen = ethernet.HeaderLen + ethernet.TagLen + ib.GRHLen

// MaxFrame is the length of the longest frame for a path MTU, without its check
// sequence.
func MaxFrame(mtu int) int { return maxHeaderLen + ib.MaxHeaderLen + mtu + ib.ICRCLen }

// Places in a GRH.
const (
	classAt  = 0
	payLenAt = 4
	hopAt    = 7
)

// ICRCPrefix returns the beginning of the ICRC of packets between two GIDs. It covers
// the GRH with its variant fields (traffic class, flow label and hop limit) replaced by
// ones (IBTA 7.8.1). Eight bytes of ones stand where an InfiniBand packet has its LRH.
// The Ethernet header is not covered.
func ICRCPrefix(src, dst netip.Addr) ib.Prefix {
	const lrhLen = 8
	h := ib.GRH{TrafficClass: 0xff, FlowLabel: 0xfffff, NextHeader: ib.NextBTH, HopLimit: 0xff, SGID: src.As16(), DGID: dst.As16()}
	var masked [lrhLen + ib.GRHLen]byte
	for i := range lrhLen {
		masked[i] = 0xff
	}
	h.Put(masked[lrhLen:])
	return ib.NewPrefix(masked[:], -1, ib.Length{At: lrhLen + payLenAt})
}

// flow returns a flow to a GID behind a MAC address, with its header.
func (n *Network) flow(via *link.Flow, mac ethernet.MAC, path *qp.Path) *frame.Flow {
	dst := wireGID(path.Dst.Addr())
	e := ethernet.Header{Dst: mac, Src: n.mac, Tagged: n.tagged, Tag: ethernet.NewTag(n.vlan, 0), Type: EtherType}
	g := ib.GRH{FlowLabel: path.FlowLabel, NextHeader: ib.NextBTH, SGID: n.gid.As16(), DGID: dst.As16()}
	b := make([]byte, maxHeaderLen)
	at := e.Put(b)
	g.Put(b[at:])
	f := &frame.Flow{Link: via, Local: n.local, Peer: endpoint(dst), CRC: ICRCPrefix(n.gid, dst)}
	f.SetHeader(b[:at+ib.GRHLen], ib.Length{At: at + payLenAt})
	return f
}

// Classify implements frame.Network. The low three bits of the service level are the
// 802.1p priority (annex A16), which only frames of a VLAN have.
func (n *Network) Classify(f *frame.Flow, c frame.Class) {
	f.Class = c
	h := f.Header(0)
	at := len(h) - ib.GRHLen
	if at > ethernet.HeaderLen {
		e := ethernet.Header{}
		e.Parse(h)
		e.Tag = ethernet.NewTag(e.Tag.VLAN(), c.ServiceLevel)
		e.Put(h)
	}
	h[at+classAt] = h[at+classAt]&0xf0 | c.TrafficClass>>4
	h[at+classAt+1] = h[at+classAt+1]&0x0f | c.TrafficClass<<4
	h[at+hopAt] = c.HopLimit
}

// wireGID is an address as packets show it: without a zone.
func wireGID(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// endpoint is the endpoint of a GID. Its number is the same for all of them.
func endpoint(gid netip.Addr) qp.Endpoint { return netip.AddrPortFrom(gid, EtherType) }
