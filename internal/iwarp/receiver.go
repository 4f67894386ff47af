package iwarp

import (
	"bytes"
	"encoding/binary"
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/reason"
	"softrdma/internal/wire/iwarp"
)

const (
	// MinScratch is the minimum length of the scratch of Room.
	MinScratch = peek

	// directFrom is the length of expected payload from which the scratch after it is short: a
	// system call then brings payload to its place, and little else. Below it, more messages
	// are read ahead and copied.
	directFrom = 8 << 10

	// longFrom is the length of an FPDU from which a system call for the next one's headers
	// costs less than copying its payload.
	longFrom = 16 << 10

	// peek is the length of that short scratch: a trailer, and the headers of the next FPDU.
	peek = 128
)

// The phases of a receiver, named after what comes next.
const (
	inHeader uint8 = iota
	inPayload
	inTrailer
)

// The targets of payload.
const (
	toRegion uint8 = iota
	toReceive
	toAsk
	toNowhere // there is no payload
)

// A receiver parses the stream and writes payload to its place. Payload that is read directly
// from the socket is there before the CRC is known. Nothing is completed before the CRC is
// checked (RFC 5041 5.4: placed, then delivered).
type receiver struct {
	q *QP
	p *machine.Port

	dead  bool // everything received is dropped
	stall stall

	// The FPDU being read.
	phase      uint8
	have, need int
	head       [iwarp.MaxTerminate]byte // headers, and messages without payload
	seg        iwarp.Segment
	info       *iwarp.Info
	sum        uint32 // CRC so far
	left       int    // payload still to come
	target     uint8
	pad        int
	tail       [3 + iwarp.CRCLen]byte
	tailHave   int

	// Markers.
	pos     int // in the stream, modulo the marker spacing
	fpdu    int // bytes of the stream since the length field of this FPDU
	mark    [iwarp.MarkerLen]byte
	markGot int

	msn         [2]uint32 // next expected, by queue
	responseMSN uint32    // of the last Atomic Response sent
	answerMSN   uint32    // of the next Atomic Response

	// The receive in use.
	recv     machine.Receive
	taken    bool // recv was taken and not completed
	sending  bool // a SEND of several segments has begun
	sendOp   iwarp.Opcode
	swallow  bool // skip the SEND that begins a peer-to-peer connection
	received uint64
	cursor   memory.Cursor

	// The tagged message begun.
	tagged   bool
	taggedOp iwarp.Opcode
	region   *memory.Region
	known    *memory.Region // region of the last access, to save a lookup
	addr     uint64
	writing  uint64 // bytes of the WRITE so far
	wrote    uint64 // length of the last message if it was a WRITE

	sink  memory.Cursor
	value [8]byte // of an Atomic Response
}

func (r *receiver) start() {
	recv := r.recv.SGEs[:0]
	*r = receiver{q: r.q, p: r.p, need: iwarp.LengthLen}
	r.recv.SGEs = recv
	r.msn = [2]uint32{1, 1}
	r.answerMSN = 1
}

func (r *receiver) reset() {
	r.start()
	r.p.DropReceives(&r.recv)
}

// begun returns how many bytes of an incomplete FPDU have arrived.
func (r *receiver) begun() int {
	switch {
	case r.dead:
		return 0
	case r.phase == inHeader:
		return r.have + r.markGot
	case r.phase == inPayload:
		return int(r.seg.Length) + iwarp.LengthLen - r.left
	}
	return int(r.seg.Length) + iwarp.LengthLen + r.tailHave
}

// direct adds the memory of the expected payload to the stream's room, and returns how much
// more may be read after it.
func (q *QP) direct(now time.Duration) (behind int) {
	r := &q.rx
	s := q.s
	// With markers, payload goes through scratch.
	if q.a.ReceiveMarkers {
		return 1 << 30
	}
	// A long FPDU is usually followed by another one. Its headers are read separately, so that
	// its payload can be read to its place.
	long := r.seg.Length >= longFrom
	if r.phase != inPayload {
		if long {
			return peek
		}
		return 1 << 30
	}
	list, ok := r.places(now, s.list)
	if !ok {
		return 1 << 30
	}
	s.list, s.offered = list, r.left
	if long || r.left >= directFrom {
		return peek
	}
	return 1 << 30
}

// filled counts n bytes that were read to their place.
func (q *QP) filled(now time.Duration, n int) {
	r := &q.rx
	if q.a.CRC {
		left := n
		for _, b := range q.s.list {
			k := min(left, len(b))
			r.sum = iwarp.UpdateCRC(r.sum, b[:k])
			if left -= k; left == 0 {
				break
			}
		}
	}
	r.placed(n)
}

// feed processes the next bytes of the stream.
func (q *QP) feed(now time.Duration, b []byte) {
	r := &q.rx
	for len(b) > 0 && !r.dead && !r.stall.on {
		if !q.a.ReceiveMarkers {
			b = r.consume(now, b)
			continue
		}
		if r.pos == 0 {
			b = r.marker(now, b)
			continue
		}
		n := min(len(b), iwarp.MarkerSpacing-r.pos)
		rest := r.consume(now, b[:n])
		used := n - len(rest)
		r.pos = (r.pos + used) % iwarp.MarkerSpacing
		if r.fpdu += used; r.phase == inHeader && r.have == 0 {
			r.fpdu = 0
		}
		b = b[used:]
	}
	if r.stall.on {
		r.stall.rest = bytes.Clone(b)
	}
}

// marker processes bytes of a marker (RFC 5044 4.3). It belongs to the FPDU around it, or else
// to the next one, whose CRC covers it.
func (r *receiver) marker(now time.Duration, b []byte) []byte {
	n := copy(r.mark[r.markGot:], b)
	r.markGot += n
	if r.markGot < iwarp.MarkerLen {
		return b[n:]
	}
	r.markGot = 0
	r.pos = iwarp.MarkerLen
	r.sum = iwarp.UpdateCRC(r.sum, r.mark[:])
	if got := int(iwarp.Marker(r.mark[:])); got != r.fpdu {
		r.q.fatal(now, iwarp.TermMPAMarker, nil, broken(reason.Detail{Reason: reason.MPAMarker, Expected: uint64(r.fpdu), Found: uint64(got)}))
		return nil
	}
	if r.phase != inHeader || r.have > 0 {
		r.fpdu += iwarp.MarkerLen
	}
	return b[n:]
}

// consume does one step, at most one FPDU, and returns the rest.
func (r *receiver) consume(now time.Duration, b []byte) []byte {
	switch r.phase {
	case inHeader:
		if r.have == 0 {
			if rest, ok := r.whole(now, b); ok {
				return rest
			}
		}
		return r.header(now, b)
	case inPayload:
		n := min(len(b), r.left)
		if r.q.a.CRC {
			r.sum = iwarp.UpdateCRC(r.sum, b[:n])
		}
		if !r.place(now, b[:n]) {
			return nil
		}
		return b[n:]
	}
	return r.trailer(now, b)
}

// whole processes an FPDU that b holds completely. It checks the CRC first.
func (r *receiver) whole(now time.Duration, b []byte) (rest []byte, ok bool) {
	if len(b) < iwarp.LengthLen {
		return b, false
	}
	n := int(binary.BigEndian.Uint16(b))
	end := iwarp.LengthLen + n + iwarp.PadLen(n)
	if len(b) < end+iwarp.CRCLen {
		return b, false
	}
	if r.q.a.CRC {
		if sum := iwarp.UpdateCRC(r.sum, b[:end]); sum != iwarp.CRC(b[end:]) {
			r.corrupt(now, sum, iwarp.CRC(b[end:]))
			return nil, true
		}
	}
	rest = b[end+iwarp.CRCLen:]
	if n == 0 {
		r.ended(now)
		return rest, true
	}
	need, ok := r.prefix(now, b)
	if !ok || !r.begin(now, b[:need]) {
		return r.unlessEnded(b), true
	}
	if r.left > 0 && !r.place(now, b[need:need+r.left]) {
		return nil, true
	}
	r.finish(now, b[:need])
	return rest, true
}

// header collects the headers of an FPDU that arrives in parts.
func (r *receiver) header(now time.Duration, b []byte) []byte {
	for {
		n := copy(r.head[r.have:r.need], b)
		if r.q.a.CRC {
			r.sum = iwarp.UpdateCRC(r.sum, b[:n])
		}
		r.have += n
		b = b[n:]
		if r.have < r.need {
			return b
		}
		switch r.need {
		case iwarp.LengthLen:
			r.seg.Length = binary.BigEndian.Uint16(r.head[:])
			if r.seg.Length == 0 {
				r.left, r.info = 0, nil
				r.toTrailer()
				return b
			}
			r.need = iwarp.PrefixLen
		case iwarp.PrefixLen:
			need, ok := r.prefix(now, r.head[:])
			if !ok {
				return nil
			}
			r.need = need
		default:
			if !r.begin(now, r.head[:r.need]) {
				return r.unlessEnded(b)
			}
			if r.left == 0 {
				r.toTrailer()
			} else {
				r.phase = inPayload
			}
			return b
		}
	}
}

// unlessEnded returns b if begin stalled, and nil if it ended the connection.
func (r *receiver) unlessEnded(b []byte) []byte {
	if r.stall.on {
		return b
	}
	return nil
}

func (r *receiver) toTrailer() {
	r.phase, r.tailHave = inTrailer, 0
	r.pad = iwarp.PadLen(int(r.seg.Length))
}

// trailer collects padding and CRC.
func (r *receiver) trailer(now time.Duration, b []byte) []byte {
	n := copy(r.tail[r.tailHave:r.pad+iwarp.CRCLen], b)
	if k := min(r.pad-r.tailHave, n); k > 0 && r.q.a.CRC {
		r.sum = iwarp.UpdateCRC(r.sum, b[:k])
	}
	if r.tailHave += n; r.tailHave < r.pad+iwarp.CRCLen {
		return b[n:]
	}
	if got := iwarp.CRC(r.tail[r.pad:]); r.q.a.CRC && got != r.sum {
		r.corrupt(now, r.sum, got)
		return nil
	}
	if t := r.p.Traffic; t != nil {
		t.ReceivedPackets++
	}
	h := r.head[:r.have]
	if r.info == nil {
		r.ended(now)
	} else {
		r.finish(now, h)
	}
	return b[n:]
}

// corrupt ends a stream with corrupted bytes (RFC 5044 8).
func (r *receiver) corrupt(now time.Duration, want, got uint32) {
	r.q.fatal(now, iwarp.TermMPACRC, nil, broken(reason.Detail{Reason: reason.MPACRC, Expected: uint64(want), Found: uint64(got)}))
}

// ended prepares for the next FPDU.
func (r *receiver) ended(now time.Duration) {
	r.phase, r.have, r.need, r.sum = inHeader, 0, iwarp.LengthLen, 0
	if q := r.q; q.silent {
		q.silent, q.held = false, false
		q.s.deadline = machine.Never
		if q.untold {
			q.untold = false
			q.s.tell(Established, reason.Detail{}, nil)
		}
	}
}
