package adapter

import (
	"time"

	"softrdma/internal/adapter/gsi"
	"softrdma/internal/congestion"
	"softrdma/internal/frame"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// forwardLimit bounds the bytes of the packets that wait for a lane. Those beyond it are
// lost, as beyond a receive buffer.
const forwardLimit = 4 << 20

// A forwarded packet came to another lane than its queue pair's, or from a lane of
// this process. The system steers packets to lanes, and a batch that was joined on its
// way goes where its first packet goes.
type forwarded struct {
	src, dst qp.Endpoint
	tos, ttl uint8
	n        int // bytes
}

// A forwardQueue holds packets in order, with their bytes one behind the other.
type forwardQueue struct {
	list []forwarded
	data []byte
}

func (f *forwardQueue) clear() { f.list, f.data = f.list[:0], f.data[:0] }

// forward hands the packet b, which l.in holds and whose ICRC and P_Key were
// checked, to the lane of its queue pair.
func (l *lane) forward(to *lane, b []byte) {
	if !to.put(forwarded{l.in.Src, l.in.Dst, l.in.TOS, l.in.TTL, len(b)}, b) {
		l.drop(b, l.in.DestQPN, reason.PacketStray, forwardLimit, uint64(len(b)))
		return
	}
	l.notify |= to.bit()
}

// put leaves a packet for the lane, and reports whether there was room.
func (l *lane) put(f forwarded, b []byte) bool {
	in := &l.handover.inbox
	l.Bell.Lock()
	defer l.Bell.Unlock()
	if len(in.data)+len(b) > forwardLimit {
		return false
	}
	in.list = append(in.list, f)
	in.data = append(in.data, b...)
	l.Bell.Ring()
	return true
}

// notifyForwarded makes the lanes progress that packets were left for. The holder of a
// lane serves it.
func (l *lane) notifyForwarded() {
	for l.notify != 0 {
		l.notify.next(l.dev).ServeDoorbell()
	}
}

// receiveForwarded delivers what other lanes left.
func (l *lane) receiveForwarded() {
	now := l.dev.clock()
	taken := &l.handover.taken
	data := taken.data
	for i := range taken.list {
		f := &taken.list[i]
		b := data[:f.n:f.n]
		data = data[f.n:]
		l.in.Src, l.in.Dst, l.in.TOS, l.in.TTL = f.src, f.dst, f.tos, f.ttl
		l.in.Parse(b) // without fault, as in the other lane
		if !l.closed {
			l.dispatch(now, b)
		}
	}
	taken.clear()
}

// dispatch passes a valid packet to its queue pair.
func (l *lane) dispatch(now time.Duration, b []byte) {
	n := l.in.DestQPN
	q := l.qps[n]
	if n == gsi.QPN {
		q = l.gsi
	}
	if q != nil {
		l.deliver(now, q, b)
		return
	}
	switch to := l.dev.laneOf(n); to {
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
func (l *lane) handOver(b []byte) {
	s, ok := l.net.(frame.Sharer)
	if ok && l.from != nil && !l.rx.HandedOver && s.HandOver(b, l.in.Src, frame.Class{TrafficClass: l.in.TOS, HopLimit: l.in.TTL}) == nil {
		return
	}
	l.drop(b, l.in.DestQPN, reason.PacketSlot, uint64(l.dev.cfg.Share.First+l.index), uint64(l.in.DestQPN))
}
