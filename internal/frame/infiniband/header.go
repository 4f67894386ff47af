package infiniband

import (
	"softrdma/internal/frame"
	"softrdma/internal/qp"
	"softrdma/internal/wire/ib"
)

// MaxFrame is the length of the longest packet for a path MTU, from LRH to ICRC.
func MaxFrame(mtu int) int { return ib.LRHLen + ib.GRHLen + ib.MaxHeaderLen + mtu + ib.ICRCLen }

// Places in an LRH and a GRH.
const (
	wordsAt  = 4
	payLenAt = 4
	hopAt    = 7
	gidsAt   = 8
	dgidAt   = 24
)

// Lengths count words from the LRH to the ICRC, or bytes from the BTH to it.
var (
	localWords   = ib.Length{At: wordsAt, Add: ib.LRHLen, Shift: 2}
	globalWords  = ib.Length{At: wordsAt, Add: ib.LRHLen + ib.GRHLen, Shift: 2}
	payloadBytes = ib.Length{At: ib.LRHLen + payLenAt}
)

// localPrefix returns the beginning of the ICRC of packets with this header. It covers the
// LRH with its virtual lane replaced by ones (IBTA 7.8.1).
func localPrefix(h ib.LRH) ib.Prefix {
	var b [ib.LRHLen]byte
	h.VL, h.Words = 0xf, 0
	h.Put(b[:])
	return ib.NewPrefix(b[:], -1, localWords)
}

// globalPrefix returns the beginning of the ICRC of packets between two GIDs. Ones stand in
// place of the LRH, which routers replace, and of what they change in the GRH (IBTA 7.8.1).
func globalPrefix(sgid, dgid [16]byte) ib.Prefix {
	var b [ib.LRHLen + ib.GRHLen]byte
	for i := range ib.LRHLen {
		b[i] = 0xff
	}
	g := ib.GRH{TrafficClass: 0xff, FlowLabel: 0xfffff, NextHeader: ib.NextBTH, HopLimit: 0xff, SGID: sgid, DGID: dgid}
	g.Put(b[ib.LRHLen:])
	return ib.NewPrefix(b[:], -1, payloadBytes)
}

// address writes the flow's header and the beginning of its ICRC for a path from the port's
// present addresses. The link sets the virtual lane.
func (n *Network) address(f *frame.Flow, path *qp.Path) {
	from := ib.LID(n.port.LID | uint16(path.PathBits)&(1<<n.port.LMC-1)) // IBTA 7.11.1
	l := ib.LRH{SL: path.ServiceLevel, Next: ib.LocalBTH, DLID: ib.LID(path.LID()), SLID: from}
	f.Peer, f.Class, f.Native = path.Dst, frame.Class{}, true
	if !path.Global() {
		f.Local, f.CRC = qp.LIDEndpoint(uint16(from)), localPrefix(l)
		b := make([]byte, ib.LRHLen)
		l.Put(b)
		f.SetHeader(b, localWords)
		return
	}
	l.Next = ib.GlobalGRH
	sgid := n.gid(path.SGIDIndex)
	g := ib.GRH{FlowLabel: path.FlowLabel, NextHeader: ib.NextBTH, SGID: sgid.As16(), DGID: path.Dst.Addr().As16()}
	f.Local, f.CRC = Global(sgid, uint16(from)), globalPrefix(g.SGID, g.DGID)
	b := make([]byte, ib.LRHLen+ib.GRHLen)
	l.Put(b)
	g.Put(b[ib.LRHLen:])
	f.SetHeader(b, globalWords, payloadBytes)
}

// Classify implements frame.Network. The service level is the flow's, see Key. A local
// packet has no other class.
func (n *Network) Classify(f *frame.Flow, c frame.Class) {
	f.Class = c
	if h := f.Header(0); len(h) > ib.LRHLen {
		g := h[ib.LRHLen:]
		g[0] = g[0]&0xf0 | c.TrafficClass>>4
		g[1] = g[1]&0x0f | c.TrafficClass<<4
		g[hopAt] = c.HopLimit
	}
}
