package adapter

import (
	"time"

	"softrdma/internal/adapter/gsi"
	"softrdma/internal/congestion"
	"softrdma/internal/frame"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// forward hands the packet b, which l.in holds and whose ICRC and P_Key were checked, to the
// lane of its queue pair. A batch that was joined on its way went to its first packet's lane.
func (l *packetLane) forward(to *packetLane, b []byte) {
	if !to.put(arrival{Src: l.in.Src, Dst: l.in.Dst, TOS: l.in.TOS, TTL: l.in.TTL, Memory: l.in.Memory}, b) {
		l.drop(b, l.in.DestQPN, reason.PacketStray, inboxLimit, uint64(len(b)))
		return
	}
	l.notify |= to.bit()
}

// put leaves a packet for the lane, and reports whether there was room.
func (l *packetLane) put(p arrival, b []byte) bool {
	l.Bell.Lock()
	defer l.Bell.Unlock()
	if !l.inbox.put(p, b) {
		return false
	}
	l.Bell.Ring()
	return true
}

// notifyForwarded makes the lanes progress that packets were left for. The holder of a
// lane serves it.
func (l *packetLane) notifyForwarded() {
	for l.notify != 0 {
		l.notify.next(l.dev).ServeDoorbell()
	}
}

// receiveForwarded delivers what other lanes left.
func (l *packetLane) receiveForwarded() {
	now := l.dev.clock()
	for p, b := range l.taken.all() {
		l.in.Src, l.in.Dst, l.in.TOS, l.in.TTL, l.in.Memory = p.Src, p.Dst, p.TOS, p.TTL, p.Memory
		fault := l.in.Parse(b)
		switch d := l.in.Fault(fault, len(b)); {
		case l.closed:
		case d.Reason != reason.None: // a wrapper of its route has changed it
			l.drop(b, l.in.DestQPN, d.Reason, d.Expected, d.Found)
		case p.New && l.faults.takes(now, b):
		default:
			l.dispatch(now, b)
		}
	}
	l.taken.clear()
}

// dispatch passes a valid packet to its queue pair.
func (l *packetLane) dispatch(now time.Duration, b []byte) {
	n := l.in.DestQPN
	q := l.qps[n]
	if n == gsi.QPN {
		q = l.gsi
	}
	if q != nil {
		l.deliver(now, q, b)
		return
	}
	switch to := l.dev.packetLane(n); to {
	case l:
	case nil:
		l.handOver(b)
		return
	default:
		l.forward(to, b)
		return
	}
	if l.in.Opcode == ib.CongestionNotify {
		l.drop(b, n, reason.CongestionIgnored, uint64(congestion.DCQCN), uint64(n))
		return
	}
	l.drop(b, n, reason.PacketQPN, uint64(len(l.qps)), uint64(n))
}

// handOver passes a packet on to the program that its queue pair belongs to. The packet was
// joined to packets of this program on its way. One that was handed over before is dropped:
// its queue pair belongs to no program.
func (l *packetLane) handOver(b []byte) {
	if s := l.can.Sharer; s != nil && l.from != nil && !l.rx.HandedOver && s.HandOver(b, l.in.Src, frame.Class{TrafficClass: l.in.TOS, HopLimit: l.in.TTL}) == nil {
		return
	}
	l.drop(b, l.in.DestQPN, reason.PacketSlot, uint64(l.dev.share.First+l.index), uint64(l.in.DestQPN))
}
