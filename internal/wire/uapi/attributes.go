package uapi

import (
	"math/bits"
	"net/netip"

	"softrdma/internal/psn"
	"softrdma/internal/qp"
)

// QPAttrs are the attributes that MODIFY_QP and QUERY_QP share, without the address.
type QPAttrs struct {
	QKey, RQPSN, SQPSN, DestQPN          uint32
	AccessFlags                          uint32
	PKeyIndex, AltPKeyIndex              uint16
	State, CurState, PathMTU, PathMig    uint8
	SQD                                  uint8 // MODIFY_QP: en_sqd_async_notify; QUERY_QP: sq_draining
	MaxRdAtomic                          uint8
	MaxDestRdAtomic, MinRNRTimer         uint8
	PortNum, Timeout, RetryCnt, RNRRetry uint8
	AltPortNum, AltTimeout               uint8
	SQSigAll                             uint8 // QUERY_QP only
	_                                    uint8
}

// QPAttrsOf converts attributes. The caller sets SQD and SQSigAll.
func QPAttrsOf(a *qp.Attr) QPAttrs {
	return QPAttrs{
		QKey: a.QKey, RQPSN: uint32(a.RQPSN), SQPSN: uint32(a.SQPSN), DestQPN: a.DestQPN, AccessFlags: uint32(a.Access),
		PKeyIndex: a.PKeyIndex, State: uint8(a.State), CurState: uint8(a.CurState), PathMTU: MTUNumber(a.PathMTU),
		MaxRdAtomic: a.MaxRdAtomic, MaxDestRdAtomic: a.MaxDestRdAtomic, MinRNRTimer: a.MinRNRTimer,
		PortNum: a.Port, Timeout: a.Timeout, RetryCnt: a.RetryCnt, RNRRetry: a.RNRRetry,
	}
}

// Attr returns the attributes but for the path and what SQD stands for.
func (q *QPAttrs) Attr() qp.Attr {
	return qp.Attr{
		QKey: q.QKey, RQPSN: psn.PSN(q.RQPSN), SQPSN: psn.PSN(q.SQPSN), DestQPN: q.DestQPN, Access: qp.Access(q.AccessFlags),
		PKeyIndex: q.PKeyIndex, State: qp.State(q.State), CurState: qp.State(q.CurState), PathMTU: MTU(q.PathMTU),
		MaxRdAtomic: q.MaxRdAtomic, MaxDestRdAtomic: q.MaxDestRdAtomic, MinRNRTimer: q.MinRNRTimer,
		Port: q.PortNum, Timeout: q.Timeout, RetryCnt: q.RetryCnt, RNRRetry: q.RNRRetry,
	}
}

// QPAttr is ib_uverbs_qp_attr.
type QPAttr struct {
	Mask, State, CurState, PathMTU, PathMig  uint32
	QKey, RQPSN, SQPSN, DestQPN, AccessFlags uint32
	AH, AltAH                                AHAttr
	Caps                                     [5]uint32
	PKeyIndex, AltPKeyIndex                  uint16
	EnSQDNotify, SQDraining                  uint8
	MaxRdAtomic, MaxDestRdAtomic             uint8
	MinRNRTimer, PortNum, Timeout, RetryCnt  uint8
	RNRRetry, AltPortNum, AltTimeout         uint8
	_                                        [5]uint8
}

// QPAttrOf converts attributes, with the path if mask names it.
func QPAttrOf(mask qp.Mask, a *qp.Attr) QPAttr {
	q := QPAttrsOf(a)
	r := QPAttr{
		Mask: uint32(mask), QKey: q.QKey, RQPSN: q.RQPSN, SQPSN: q.SQPSN, DestQPN: q.DestQPN, AccessFlags: q.AccessFlags,
		PKeyIndex: q.PKeyIndex, State: uint32(q.State), CurState: uint32(q.CurState), PathMTU: uint32(q.PathMTU),
		MaxRdAtomic: q.MaxRdAtomic, MaxDestRdAtomic: q.MaxDestRdAtomic, MinRNRTimer: q.MinRNRTimer,
		PortNum: q.PortNum, Timeout: q.Timeout, RetryCnt: q.RetryCnt, RNRRetry: q.RNRRetry,
	}
	if mask&qp.MaskAV != 0 {
		r.AH = AHOf(&a.Path)
	}
	return r
}

// Attr returns the attributes and their mask. The port of the path is the peer's UDP
// port, which the structure does not have.
func (r *QPAttr) Attr(port uint16) (qp.Mask, qp.Attr) {
	q := QPAttrs{
		QKey: r.QKey, RQPSN: r.RQPSN, SQPSN: r.SQPSN, DestQPN: r.DestQPN, AccessFlags: r.AccessFlags,
		PKeyIndex: r.PKeyIndex, State: uint8(r.State), CurState: uint8(r.CurState), PathMTU: uint8(r.PathMTU),
		MaxRdAtomic: r.MaxRdAtomic, MaxDestRdAtomic: r.MaxDestRdAtomic, MinRNRTimer: r.MinRNRTimer,
		PortNum: r.PortNum, Timeout: r.Timeout, RetryCnt: r.RetryCnt, RNRRetry: r.RNRRetry,
	}
	mask, a := qp.Mask(r.Mask), q.Attr()
	if mask&qp.MaskAV != 0 {
		a.Path = r.AH.Path(port)
	}
	return mask, a
}

type GlobalRoute struct {
	DGID                                 [16]byte
	FlowLabel                            uint32
	SGIDIndex, HopLimit, TrafficClass, _ uint8
}

// AHAttr is ib_uverbs_ah_attr.
type AHAttr struct {
	GRH                         GlobalRoute
	DLID                        uint16
	SL, SrcPathBits, StaticRate uint8
	IsGlobal, PortNum, _        uint8
}

// AHOf converts a path. Its port has no place in the structure.
func AHOf(p *qp.Path) AHAttr {
	h := AHAttr{
		GRH: GlobalRoute{FlowLabel: p.FlowLabel, SGIDIndex: p.SGIDIndex, HopLimit: p.HopLimit, TrafficClass: p.TrafficClass},
		SL:  p.ServiceLevel, IsGlobal: 1, PortNum: 1,
	}
	if a := p.Dst.Addr(); a.IsValid() {
		h.GRH.DGID = a.WithZone("").As16()
	}
	return h
}

// FabricAHOf converts a path of an InfiniBand fabric, which may have no GRH.
func FabricAHOf(p *qp.Path) AHAttr {
	h := AHOf(p)
	h.DLID, h.SrcPathBits = p.LID(), p.PathBits
	if !p.Global() {
		h.IsGlobal, h.GRH = 0, GlobalRoute{}
	}
	return h
}

// FabricPath converts the structure to a path of an InfiniBand fabric.
func (h *AHAttr) FabricPath() qp.Path {
	p := qp.Path{Dst: qp.LIDEndpoint(h.DLID), ServiceLevel: h.SL & maxServiceLevel, PathBits: h.SrcPathBits & maxPathBits}
	if h.IsGlobal != 0 {
		g := &h.GRH
		p.Dst = netip.AddrPortFrom(netip.AddrFrom16(g.DGID), h.DLID)
		p.SGIDIndex, p.FlowLabel, p.HopLimit, p.TrafficClass = g.SGIDIndex, g.FlowLabel&maxFlowLabel, g.HopLimit, g.TrafficClass
	}
	return p
}

// What fields of an address have room for (IBTA 7.6.5, 4.1.3, 8.2.4).
const (
	maxServiceLevel = 0xf
	maxPathBits     = 0x7f
	maxFlowLabel    = 0xfffff
)

// Path converts the structure to a path to a UDP port. A service level has four bits
// (IBTA 7.6.5); adapters ignore the others.
func (h *AHAttr) Path(port uint16) qp.Path {
	g := &h.GRH
	return qp.Path{
		Dst:       netip.AddrPortFrom(netip.AddrFrom16(g.DGID).Unmap(), port),
		FlowLabel: g.FlowLabel, SGIDIndex: g.SGIDIndex, HopLimit: g.HopLimit, TrafficClass: g.TrafficClass, ServiceLevel: h.SL & 0xf,
	}
}

// QPDest is ib_uverbs_qp_dest, an AHAttr in another order.
type QPDest struct {
	DGID                              [16]byte
	FlowLabel                         uint32
	DLID, _                           uint16
	SGIDIndex, HopLimit, TrafficClass uint8
	SL, SrcPathBits, StaticRate       uint8
	IsGlobal, PortNum                 uint8
}

// Dest converts the structure to that of MODIFY_QP and QUERY_QP.
func (h *AHAttr) Dest() QPDest {
	g := &h.GRH
	return QPDest{
		DGID: g.DGID, FlowLabel: g.FlowLabel, SGIDIndex: g.SGIDIndex, HopLimit: g.HopLimit, TrafficClass: g.TrafficClass,
		DLID: h.DLID, SL: h.SL, SrcPathBits: h.SrcPathBits, StaticRate: h.StaticRate, IsGlobal: h.IsGlobal, PortNum: h.PortNum,
	}
}

// AH converts the structure to that of CREATE_AH.
func (d *QPDest) AH() AHAttr {
	return AHAttr{
		GRH:  GlobalRoute{DGID: d.DGID, FlowLabel: d.FlowLabel, SGIDIndex: d.SGIDIndex, HopLimit: d.HopLimit, TrafficClass: d.TrafficClass},
		DLID: d.DLID, SL: d.SL, SrcPathBits: d.SrcPathBits, StaticRate: d.StaticRate, IsGlobal: d.IsGlobal, PortNum: d.PortNum,
	}
}

// MTU returns the bytes of an MTU (enum ib_mtu): 1 means 256 and 5 means 4096. It
// returns 0 for other numbers.
func MTU(number uint8) int {
	if number < 1 || number > 5 {
		return 0
	}
	return 128 << number
}

// MTUNumber returns the number of an MTU, 0 if it has none.
func MTUNumber(n int) uint8 {
	number := uint8(max(bits.Len(uint(n))-8, 0))
	if MTU(number) != n {
		return 0
	}
	return number
}
