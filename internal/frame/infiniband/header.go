package infiniband

import (
	"errors"

	"softrdma/internal/frame"
	"softrdma/internal/qp"
	"softrdma/internal/wire/ib"
)

// MaxFrame is the length of the longest packet for a path MTU, from LRH to ICRC.
func MaxFrame(mtu int) int { return ib.LRHLen + ib.GRHLen + ib.MaxHeaderLen + mtu + ib.ICRCLen }

var errNoLID = errors.New("the port has no LID: no subnet manager has configured it yet")

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

// flow returns a flow of a path from a LID, with its header. The link sets the virtual lane.
func (n *Network) flow(path *qp.Path, from ib.LID) *frame.Flow {
	l := ib.LRH{SL: path.ServiceLevel, Next: ib.LocalBTH, DLID: lidOf(path.Dst), SLID: from}
	if !global(path.Dst) {
		f := &frame.Flow{Local: LocalEndpoint(from), Peer: path.Dst, CRC: localPrefix(l)}
		b := make([]byte, ib.LRHLen)
		l.Put(b)
		f.SetHeader(b, localWords)
		return f
	}
	l.Next = ib.GlobalGRH
	g := ib.GRH{FlowLabel: path.FlowLabel, NextHeader: ib.NextBTH, SGID: n.gid.As16(), DGID: path.Dst.Addr().As16()}
	f := &frame.Flow{Local: GlobalEndpoint(n.gid, from), Peer: path.Dst, CRC: globalPrefix(g.SGID, g.DGID)}
	b := make([]byte, ib.LRHLen+ib.GRHLen)
	l.Put(b)
	g.Put(b[ib.LRHLen:])
	f.SetHeader(b, globalWords, payloadBytes)
	return f
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
