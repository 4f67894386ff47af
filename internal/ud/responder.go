package ud

import (
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// Receive takes a datagram to this queue pair or to a group that it is attached to. IBTA
// 9.8.3: a datagram that does not fit is dropped silently, and the receive that was too
// short stays for the next one.
func (q *QP) Receive(_ time.Duration, in *machine.In) {
	if d := q.receive(in); d.Reason != reason.None {
		q.Host.Refuse(q.Port, d)
	}
}

func (q *QP) receive(in *machine.In) reason.Detail {
	i := in.Opcode.Info()
	switch {
	case !q.Receiving():
		return reason.Detail{Reason: reason.PacketQPState, Expected: uint64(qp.RTR), Found: uint64(q.Attr.State)}
	case i == nil || in.Opcode.Transport() != ib.UD:
		return reason.Detail{Reason: reason.PacketTransport, Expected: uint64(ib.UD), Found: uint64(in.Opcode.Transport())}
	case in.DETH.QKey != q.Attr.QKey: // IBTA 9.6.1.4.1, 10.2.5
		return reason.Detail{Reason: reason.PacketQKey, Expected: uint64(q.Attr.QKey), Found: uint64(in.DETH.QKey)}
	case len(in.Payload) > q.Attr.PathMTU: // IBTA 9.8.3, C9-92
		return reason.Detail{Reason: reason.LengthMTU, Expected: uint64(q.Attr.PathMTU), Found: uint64(len(in.Payload))}
	}
	r := q.Take()
	if r == nil {
		return reason.Detail{Reason: reason.PacketNoReceive, Expected: 1, Found: 0}
	}
	n := uint64(ib.GRHLen + len(in.Payload))
	if n > r.Length {
		return reason.Detail{Reason: reason.PacketTooLong, Expected: r.Length, Found: n}
	}
	// Annex A17.4.5.2: the network header precedes the data, for IPv4 and IPv6.
	length := i.Len + len(in.Payload) + int(in.Pad) + ib.ICRCLen
	q.PutGRH(q.grh[:], in, length)
	q.recv.Restart()
	if !q.Scatter(&q.recv, 0, q.grh[:]) || !q.Scatter(&q.recv, ib.GRHLen, in.Payload) {
		return reason.Detail{} // reported already, and the state is ERR
	}
	flags := queue.WCGRH
	if in.LRH.Present && !in.LRH.Global { // IBTA 11.4.2.1
		flags = 0
	}
	if i.Headers&ib.HasImmDt != 0 {
		flags |= queue.WCImm
	}
	q.Deliver(queue.WCRecv, n, in, flags)
	return reason.Detail{}
}
