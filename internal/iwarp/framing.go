package iwarp

import "softrdma/internal/wire/iwarp"

// A Framing says where an established stream stands among its FPDUs, for code that begins to look at them there.
type Framing struct {
	CRC                         bool
	SendMarkers, ReceiveMarkers bool

	// Positions in the stream of the next byte, modulo the marker spacing.
	Sent, Received int

	// Rest is how many bytes of the FPDU that is being received are still to come, without markers.
	Rest int
}

// Framing reports false before the stream is established and after its end, while a part of an FPDU is left to be
// sent, and while what was received does not tell where the next FPDU begins.
func (s *Stream) Framing() (f Framing, ok bool) {
	if !s.receives() || s.taken < len(s.out) || s.q.tx.pending() || s.q.rx.stall.on {
		return f, false
	}
	a := &s.q.a
	f = Framing{CRC: a.CRC, SendMarkers: a.SendMarkers, ReceiveMarkers: a.ReceiveMarkers, Sent: s.q.tx.pos, Received: s.q.rx.pos}
	f.Rest, ok = s.q.rx.rest()
	return f, ok
}

// rest returns how many bytes of the FPDU in hand are still to come, without markers.
func (r *receiver) rest() (n int, ok bool) {
	switch {
	case r.markGot > 0, r.phase == inHeader && r.have == 1:
		return 0, false
	case r.phase == inHeader && r.have == 0:
		return 0, true
	case r.phase == inHeader:
		return iwarp.FPDULen(int(r.seg.Length)) - r.have, true
	case r.phase == inPayload:
		return r.left + iwarp.PadLen(int(r.seg.Length)) + iwarp.CRCLen, true
	}
	return r.pad + iwarp.CRCLen - r.tailHave, true
}
