package adapter

import (
	"time"

	"softrdma/internal/frame"
	"softrdma/internal/machine"
	"softrdma/internal/recorder"
	"softrdma/internal/wire/ib"
)

const (
	// ect0 marks packets as ECN-capable (RFC 3168; annex A17.3.1.1.3,
	// A17.9.3, CA17-5).
	ect0 = 0x02

	defaultHopLimit = 64
)

// burst sends up to maxBurst packets of a queue pair. It returns how many those were
// and reports whether it may have more.
func (l *packetLane) burst(now time.Duration, q *QP) (n int, more bool) {
	r := q.route()
	r.Prepare(q, &l.out)
	if (q.Fragment != q.fragmented || q.Passes != q.passes) && q.flow != nil {
		l.flows.followPath(now, q)
	}
	mayWait := l.dev.cfg.MemoryOnly && !q.transport.Connected
	for n < maxBurst {
		if !r.Admit(now, q) || mayWait && l.awaitsPath(q) {
			return n, false
		}
		l.out.Pieces, l.out.Len, l.out.Path, l.out.Region = l.out.Pieces[:0], 0, nil, nil
		if !q.m.Next(now, &l.out) {
			return n, false
		}
		if l.dev.Memory.Unpinned() {
			n += l.sendUnpinned(now, q, r, maxBurst-n)
		} else {
			n += l.send(now, q, r, maxBurst-n)
		}
	}
	return n, true
}

// send sends l.out, a packet or train of q: that of a connection on its route, a datagram on that
// of its destination. It returns how many packets of q were sent, which is limit at most, or 1 if
// none could be.
func (l *packetLane) send(now time.Duration, q *QP, r route, limit int) int {
	o := &l.out
	f := l.flows.of(q, o.Path, o.DestQPN)
	if f == nil {
		return 1
	}
	if f != q.flow {
		r = l.flows.route(f, o.DestQPN)
	}
	path := o.Path
	if path == nil {
		path = &q.Attr.Path
	}
	class := frame.Class{TrafficClass: path.TrafficClass &^ 3, HopLimit: path.HopLimit, ServiceLevel: path.ServiceLevel}
	if o.Markable { // CA17-5: 00 if no sender slows down for marks
		class.TrafficClass |= ect0
		o.Markable = false
	}
	if class.HopLimit == 0 {
		class.HopLimit = defaultHopLimit
	}
	if x := l.network.caps.Limited; x != nil {
		q.level = x.Level(class.TrafficClass, class.ServiceLevel)
	}
	o.Pad = ib.PadLen(o.Len)
	l.countSent(o)
	index := q.Attr.PKeyIndex
	if q == l.gsi {
		index = o.PKeyIndex
	}
	if !l.putPKey(q, &o.BTH, index) {
		return 1
	}
	l.recorder.Packet(recorder.Sent, now, q.QPN, &o.Packet, o.Len, o.Train)
	if o.Probe {
		return l.flows.probe(now, q, f, r, o, class)
	}
	return r.Send(now, q, f, o, class, limit)
}

// countSent counts a packet or train that is about to be sent.
func (l *packetLane) countSent(o *machine.Out) {
	l.traffic.Sent += uint64(o.Len)
	l.traffic.SentPackets += uint64(max(o.Train, 1))
}
