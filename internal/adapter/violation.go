package adapter

import (
	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// A Violation is a packet from a fabric that the device refuses for its P_Key or Q_Key. The
// port counts it, and the subnet manager may learn of it by a trap (IBTA 10.9.4, 14.2.5.1).
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

// violated reports the packet that the lane is receiving.
func (l *lane) violated(r reason.Reason) {
	in := &l.in
	if l.dev.cfg.Violated == nil || !in.LRH.Present {
		return
	}
	v := Violation{QKey: r == reason.PacketQKey, Key: uint32(in.PKey), LRH: in.LRH, QPN: in.DestQPN}
	v.SLID, v.DLID = (&qp.Path{Dst: in.Src}).LID(), (&qp.Path{Dst: in.Dst}).LID()
	if in.Opcode.Transport() == ib.UD {
		v.SourceQPN = in.DETH.SrcQPN
	}
	if v.QKey {
		v.Key = in.DETH.QKey
	}
	if in.LRH.Global {
		v.Source, v.Target = in.Src.Addr().As16(), in.Dst.Addr().As16()
	}
	l.dev.cfg.Violated(&v)
}

// Refuse implements machine.Host.
func (d *Device) Refuse(p *machine.Port, why reason.Detail) {
	d.Trace.Refuse(p.QPN, why)
	if why.Reason == reason.PacketQKey {
		d.laneOf(p.QPN).violated(why.Reason)
	}
}
