package adapter

import (
	"time"

	"softrdma/internal/congestion"
	"softrdma/internal/link"
	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/recorder"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/ib/own"
)

// multicastQPN is the destination of multicast datagrams (IBTA 10.5).
const multicastQPN = 0xffffff

// receive takes a batch apart and delivers its packets to their queue pairs.
func (l *packetLane) receive(now time.Duration, rx *link.Rx) {
	from, why := l.net.Arrive(rx)
	if from == nil {
		l.dev.Trace.Refuse(0, why)
		return
	}
	l.from = from
	l.in.Src, l.in.Dst, l.in.TOS, l.in.TTL = from.From, from.To, from.Class.TrafficClass, from.Class.HopLimit
	l.in.LRH, l.in.Memory = from.LRH, false
	if len(rx.Telemetry) > 0 {
		l.in.Hops = own.ParseHops(l.hops[:0], rx.Telemetry)
	}
	for data := rx.Data; ; { // an empty batch is one packet, which is refused
		n := min(max(rx.Size, 1), len(data))
		front := min(from.Front, n)
		if b := data[front:n:n]; !l.receiveFast(now, b) {
			l.header = data[:front]
			l.packet(now, b)
		}
		if data = data[n:]; len(data) == 0 {
			break
		}
	}
	l.leaveFastPath()
	l.header, l.in.Hops = nil, nil
	l.notifyForwarded()
}

// packet checks one packet in the order of IBTA 9.6 and dispatches it. It drops what it
// refuses, for a named reason.
func (l *packetLane) packet(now time.Duration, b []byte) {
	in := &l.in
	fault := in.Parse(b)
	if len(b) < ib.BTHLen+ib.ICRCLen {
		l.drop(b, 0, reason.PacketShort, ib.BTHLen+ib.ICRCLen, uint64(len(b)))
		return
	}
	ok := l.from.Check(b)
	if !ok {
		l.from.Skip()
	}
	l.arrived(b)
	if !ok {
		l.drop(b, in.DestQPN, reason.PacketICRC, uint64(l.from.Sum(b)), uint64(ib.ICRC(b)))
		return
	}
	if l.faults.takes(now, b) {
		return
	}
	if l.checked(now, fault, b) && !in.Opcode.Info().Last {
		l.enterFastPath(b)
	}
}

// checked continues with a packet whose ICRC is right: b, or what the memory path brought.
// It reports whether a queue pair got it.
func (l *packetLane) checked(now time.Duration, fault ib.Fault, b []byte) bool {
	in := &l.in
	if d := in.Fault(fault, len(b)); d.Reason != reason.None {
		l.drop(b, in.DestQPN, d.Reason, d.Expected, d.Found)
		return false
	}
	if !l.inPartition() {
		l.drop(b, in.DestQPN, reason.PacketPKey, uint64(l.pkeys.Key(0)), uint64(in.PKey))
		return false
	}
	if in.DestQPN == multicastQPN {
		l.multicast(now, b)
		return false
	}
	l.dispatch(now, b)
	return true
}

func (l *packetLane) deliver(now time.Duration, q *QP, b []byte) {
	// Annex A17.9.3: notifications are of no transport.
	if l.in.Opcode == ib.CongestionNotify && !q.transport.Connected {
		l.drop(b, q.QPN, reason.CongestionIgnored, uint64(congestion.DCQCN), uint64(q.QPN))
		return
	}
	if want := q.transport.Opcodes; l.in.Opcode.Transport() != want && l.in.Opcode != ib.CongestionNotify {
		l.drop(b, q.QPN, reason.PacketTransport, uint64(want), uint64(l.in.Opcode.Transport()))
		return
	}
	if !q.admits(l.in.PKey) {
		l.drop(b, q.QPN, reason.PacketPKey, uint64(l.pkeys.Key(q.Attr.PKeyIndex)), uint64(l.in.PKey))
		return
	}
	if s := q.Attr.State; s < qp.RTR || s == qp.Err {
		l.drop(b, q.QPN, reason.PacketQPState, uint64(qp.RTR), uint64(s))
		return
	}
	if q.transport.Connected && l.in.Memory != q.inMemory && !l.changesPath(q) {
		l.drop(b, q.QPN, reason.PacketPath, 0, uint64(l.in.Src.Port()))
		return
	}
	if l.in.Lost && !q.transport.Acknowledged {
		return
	}
	l.recorder.Packet(recorder.Received, now, q.QPN, &l.in.Packet, len(l.in.Payload), l.in.Train)
	machine.Deliver(l.traffic, &q.Port, now, q.can.Receiver, &l.in)
	l.asked = l.asked || l.in.Opcode.Info().Asks()
	l.received(q)
}

// multicast delivers a datagram to every queue pair attached to its group (IBTA 10.5).
func (l *packetLane) multicast(now time.Duration, b []byte) {
	qps := l.groups[l.in.Dst.Addr()]
	if len(qps) == 0 {
		a := l.in.Dst.Addr().As16()
		low := uint64(a[12])<<24 | uint64(a[13])<<16 | uint64(a[14])<<8 | uint64(a[15])
		l.drop(b, multicastQPN, reason.PacketMulticast, uint64(len(l.groups)), low)
		return
	}
	for _, q := range qps {
		l.deliver(now, q, b)
	}
}

func (l *packetLane) drop(b []byte, qpn uint32, r reason.Reason, expected, found uint64) {
	d := reason.Detail{Reason: r, Expected: expected, Found: found}
	l.dev.cfg.Violated.Report(&l.in, r)
	if l.watch == nil || b == nil {
		l.dev.Trace.Refuse(qpn, d)
		return
	}
	l.dev.Trace.RefusePacket(qpn, d, l.tracedArrival(b))
}
