package adapter

import (
	"encoding/binary"
	"time"

	"softrdma/internal/psn"
	"softrdma/internal/wire/ib"
)

// middles are the packets that a batch is expected to go on with: those in the
// middle of the message that the last one is of. All of them have the same header
// but for the PSN, which goes up by one, so that comparing twelve bytes tells what
// parsing them, the checks of IBTA 9.6 and the look-up of the queue pair told
// of the packet before.
type middles struct {
	q     *QP // nil where none are expected
	size  int
	head  uint64 // the first eight bytes of the next header
	tail  uint32 // the other four
	taken bool   // by Continue
}

const (
	psnMask   = 1<<24 - 1
	ackReq    = 1 << 31
	opcodeAt  = 56 // in head
	solicited = 1 << 55
	padMask   = 3 << 52
)

// expectMiddles expects the middle of the message behind packet b, which was
// dispatched and is not a message's last. Where somebody traces, each packet is
// shown before it is looked at.
func (l *lane) expectMiddles(b []byte) {
	q := l.qps[l.in.DestQPN]
	if q == nil || q.continuer == nil || l.dev.Trace.On() {
		return
	}
	head, tail := binary.BigEndian.Uint64(b), binary.BigEndian.Uint32(b[8:])
	head = head&^(0xff<<opcodeAt|solicited|padMask) | uint64(ib.Opcode(b[0]).Segment(false, false))<<opcodeAt
	l.middles = middles{q: q, size: ib.BTHLen + q.Attr.PathMTU + ib.ICRCLen, head: head, tail: after(tail &^ ackReq)}
}

// after is the last word of the header behind the one with tail.
func after(tail uint32) uint32 { return tail&^psnMask | (tail+1)&psnMask }

// goesOn takes packet b where it is the one expected, and tells whether it was.
func (l *lane) goesOn(now time.Duration, b []byte) bool {
	m := &l.middles
	if m.q == nil {
		return false
	}
	if len(b) != m.size || binary.BigEndian.Uint64(b) != m.head || binary.BigEndian.Uint32(b[8:]) != m.tail {
		l.endMiddles()
		return false
	}
	if !l.from.Check(b) {
		l.endMiddles()
		return false
	}
	in, end := &l.in, len(b)-ib.ICRCLen
	in.Opcode, in.PSN = ib.Opcode(b[0]), psn.New(m.tail)
	in.Solicited, in.AckReq, in.Pad = false, false, 0
	in.Payload = b[ib.BTHLen:end:end]
	m.tail = after(m.tail)
	if m.q.continuer.Continue(now, in) {
		m.taken = true
	} else {
		l.deliver(now, m.q, b)
	}
	return true
}

// endMiddles expects no more of them, and does what is to be done once.
func (l *lane) endMiddles() {
	if q := l.middles.q; q != nil {
		l.middles.q = nil
		if l.middles.taken {
			l.received(q)
		}
	}
}
