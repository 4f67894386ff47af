package machine

import (
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// A Violation is a packet from a fabric that is refused for its P_Key or Q_Key. The port
// counts it, and the subnet manager may learn of it by a trap (IBTA 10.9.4, 14.2.5.1).
type Violation struct {
	QKey       bool // otherwise P_Key
	Key        uint32
	SLID, DLID uint16
	LRH        qp.LinkRoute
	SourceQPN  uint32 // of a datagram
	QPN        uint32
	Source     [16]byte // GIDs, if LRH.Global
	Target     [16]byte
}

// Violations gets violations; nil ignores them. It may neither block nor call the adapter, and
// keeps nothing of v.
type Violations func(v *Violation)

// Report reports a packet that was refused for a reason, if that is one of keys.
func (f Violations) Report(in *In, why reason.Reason) {
	if f == nil || !in.LRH.Present || why != reason.PacketPKey && why != reason.PacketQKey {
		return
	}
	v := Violation{QKey: why == reason.PacketQKey, Key: uint32(in.PKey), SLID: in.Src.Port(), DLID: in.Dst.Port(), LRH: in.LRH, QPN: in.DestQPN}
	if in.Opcode.Transport() == ib.UD {
		v.SourceQPN = in.DETH.SrcQPN
	}
	if v.QKey {
		v.Key = in.DETH.QKey
	}
	if in.LRH.Global {
		v.Source, v.Target = in.Src.Addr().As16(), in.Dst.Addr().As16()
	}
	f(&v)
}
