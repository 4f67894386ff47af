package subnet

import (
	"softrdma/internal/management/agent"
	"softrdma/internal/reason"
	"softrdma/internal/topology"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/mad"
)

// Unwanted drops a packet for a program that the port of an adapter does not have. Requests of
// communication managers are answered, as by a host on which no program listens, so that a
// connection fails at once instead of by time-out.
func (s *Subnet) Unwanted(at topology.End, frame []byte) {
	m := s.members[at.Node]
	var n ib.Native
	n.Parse(frame)
	s.drop(m, at.Port, reason.Detail{Reason: reason.PacketQPN, Found: uint64(queuePair(n.Body))})
	var out agent.Departure
	if s.config.Fabric.Nodes[at.Node].Kind == topology.Adapter && refusal(&n, &out) {
		out.Port = at.Port
		s.sendMAD(m, &out)
		s.schedule(m)
	}
	s.pool.Recycle(frame)
}

// refusal makes the answer to a request of a communication manager for which there is no
// listener and no connection, and reports whether the packet is one.
func refusal(n *ib.Native, out *agent.Departure) bool {
	var p ib.Packet
	var h mad.Header
	if n.LRH.Next < ib.LocalBTH || p.Parse(n.Body) != ib.OK || p.DestQPN != mad.GSIQPN || n.LRH.DLID.Multicast() {
		return false
	}
	d, fault := mad.ParseHeader(p.Payload, &h)
	if fault.Reason != reason.None {
		return false
	}
	answer := func(a mad.AttributeID) {
		x := mad.NewHeader(a, h.TID)
		x.Put(&out.MAD)
	}
	switch h.Attribute {
	case mad.AttrREQ: // IBTA 12.6.7.2: no service of this ID
		var q mad.REQ
		q.Parse(d)
		answer(mad.AttrREJ)
		(&mad.REJ{RemoteID: q.LocalID, Of: mad.OfREQ, Reason: mad.RejectInvalidServiceID}).Put(&out.MAD)
	case mad.AttrDREQ: // the connection is over
		var q mad.DREQ
		q.Parse(d)
		answer(mad.AttrDREP)
		(&mad.DREP{LocalID: q.RemoteID, RemoteID: q.LocalID}).Put(&out.MAD)
	case mad.AttrSIDRReq:
		var q mad.SIDRReq
		q.Parse(d)
		answer(mad.AttrSIDRRep)
		(&mad.SIDRRep{RequestID: q.RequestID, Status: mad.SIDRUnsupported, Service: q.Service}).Put(&out.MAD)
	default:
		return false
	}
	out.SLID, out.DLID, out.SL = uint16(n.LRH.DLID), uint16(n.LRH.SLID), n.LRH.SL
	out.QPN, out.SourceQPN, out.QKey, out.PKey = p.DETH.SrcQPN, mad.GSIQPN, mad.GSIQKey, p.PKey
	return true
}
