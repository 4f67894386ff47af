package adapter

import (
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/recorder"
	"softrdma/internal/wire/ib"
)

// A fastPath receives the packets in the middle of a message. While a batch continues with
// the message of its last packet, a comparison with the expected header replaces parsing,
// the checks of IBTA 9.6 and the look-up of the queue pair.
type fastPath struct {
	q     *QP // nil while no such packet is expected
	size  int // from BTH to ICRC
	next  ib.Template
	taken bool // Continue took some, see leaveFastPath
}

// enterFastPath expects the middle of the message behind packet b, which was
// dispatched and is not a message's last. A trace shows each packet before it is checked,
// so there is no fast path with one.
func (l *packetLane) enterFastPath(b []byte) {
	q := l.qps[l.in.DestQPN]
	if q == nil || q.can.Continuer == nil || q.inMemory || l.watch != nil || l.faults.receives() {
		return
	}
	l.fast.q, l.fast.size, l.fast.taken = q, ib.BTHLen+q.Attr.PathMTU+ib.ICRCLen, false
	l.fast.next.Follow(b)
}

// receiveFast receives packet b if it is the expected one, and reports whether it was.
func (l *packetLane) receiveFast(now time.Duration, b []byte) bool {
	f := &l.fast
	if f.q == nil {
		return false
	}
	if len(b) != f.size || !f.next.Match(b) || !l.from.Check(b) {
		l.leaveFastPath()
		return false
	}
	in, end := &l.in, len(b)-ib.ICRCLen
	in.Opcode, in.PSN = f.next.Opcode(), f.next.PSN()
	in.Solicited, in.AckReq, in.Pad = false, false, 0
	in.Payload = b[ib.BTHLen:end:end]
	f.next.Next()
	if f.q.can.Continuer.Continue(now, in) {
		f.taken = true
		machine.Continued(l.traffic, &f.q.Port, in)
		l.recorder.Packet(recorder.Received, now, f.q.QPN, &in.Packet, len(in.Payload), 1)
	} else {
		l.deliver(now, f.q, b)
	}
	return true
}

// leaveFastPath ends it, and does once what follows the packets that Continue took.
func (l *packetLane) leaveFastPath() {
	if q := l.fast.q; q != nil {
		l.fast.q = nil
		if l.fast.taken {
			l.received(q)
		}
	}
}
