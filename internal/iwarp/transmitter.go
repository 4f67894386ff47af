package iwarp

import (
	"slices"

	"softrdma/internal/memory"
	"softrdma/internal/reason"
	"softrdma/internal/wire/iwarp"
)

// copyBelow is the length of payload up to which copying it next to its header costs less than
// a separate piece.
const copyBelow = 1024

// maxFrames is the maximum of FPDUs that one call of Next returns.
const maxFrames = 256

// noRequest is the index that means no request.
const noRequest = ^uint32(0)

// A frame is an FPDU that was built and not completely sent. Its header, its trailer and
// copied payload are in the arena at head. Gathered payload follows the first front bytes of
// them.
type frame struct {
	length  int // of the FPDU with all markers
	head    int
	inArena int
	front   int
	n       uint32 // gathered payload
	req     uint32 // request that owns the gathered payload, noRequest for a READ response
	off     uint32 // message offset of the payload
	region  *memory.Region
	addr    uint64
	done    uint32 // request that is completely sent with this frame, or noRequest
	pos     int    // start in the stream, modulo the marker spacing
	armed   bool   // the frame is a request that may be answered from then on
}

// A heldFrame is the last FPDU of a request, while the link has it but the system does not.
type heldFrame struct {
	req uint32 // index of the request
	end uint64 // in the stream
}

// A transmitter builds FPDUs and keeps them until the socket has accepted them.
type transmitter struct {
	q        *QP
	max      int // length of an FPDU without markers
	borrowed *arena
	arena    []byte // borrowed from the Pool
	used     int
	list     []frame
	first    int // first frame that is not completely sent
	taken    int // bytes of it that were sent
	batch    int // bytes in list

	held []heldFrame // in order

	pos    int // in the stream, modulo the marker spacing
	cursor memory.Cursor
	pieces [][]byte

	lastEnd int // where the last piece ends in the arena, or 0 if it is elsewhere
	lastBeg int
}

func (t *transmitter) start(max int) {
	t.drop()
	t.held = t.held[:0]
	t.max, t.pos = max, 0
}

func (t *transmitter) reset() {
	t.drop()
	*t = transmitter{q: t.q, pieces: t.pieces[:0]}
}

// drop discards what was built, and returns its memory.
func (t *transmitter) drop() {
	if a := t.borrowed; a != nil {
		clear(t.list) // it references regions
		a.list = t.list[:0]
		if s := t.q.s; s != nil {
			s.pool.put(a)
		}
	}
	t.borrowed, t.arena, t.list = nil, nil, nil
	t.first, t.taken, t.batch, t.used, t.lastEnd = 0, 0, 0, 0, 0
}

// hold completes a request that ends at or before left, or records it for release.
func (t *transmitter) hold(req uint32, end, left uint64) {
	if end <= left {
		t.q.req.requests[req].state |= done
		return
	}
	t.held = append(t.held, heldFrame{req, end})
}

// release completes the requests whose bytes have left the link: all that end at or before a
// position of the stream.
func (t *transmitter) release(left uint64) {
	k := 0
	for ; k < len(t.held) && t.held[k].end <= left; k++ {
		t.q.req.requests[t.held[k].req].state |= done
	}
	t.held = slices.Delete(t.held, 0, k)
}

// pending reports whether there are frames that are not completely sent.
func (t *transmitter) pending() bool { return t.first < len(t.list) }

// begin prepares for a new batch.
func (t *transmitter) begin() {
	t.drop()
	t.borrowed = t.q.s.pool.get()
	t.arena, t.list = t.borrowed.b, t.borrowed.list
}

// room reports whether the batch can hold another frame of n bytes in the arena and k pieces.
func (t *transmitter) room(out *Out, n, k int) bool {
	if len(t.list) == 0 {
		return true
	}
	return t.batch < batchLen && len(t.list) < maxFrames && len(out.Pieces)+k+2 < maxPieces && t.used+marked(n) <= len(t.arena)
}

// marked returns an upper bound of the length of n bytes of FPDU with markers.
func marked(n int) int {
	return n + iwarp.MarkerLen*(n/(iwarp.MarkerSpacing-iwarp.MarkerLen)+2)
}

// payload returns how much payload an FPDU can hold after a header. All but the last of a
// message are full, so they need no padding.
func (t *transmitter) payload(header int) int { return t.max - header - iwarp.CRCLen }

// open returns the memory for an FPDU with a ULPDU of n bytes that is entirely in the arena.
// The caller writes the ULPDU after the length, which Segment.Put writes, and calls seal.
func (t *transmitter) open(n int) []byte {
	b := t.arena[t.used : t.used+iwarp.FPDULen(n)]
	clear(b[iwarp.LengthLen+n:])
	return b
}

// count counts an FPDU with n bytes of payload.
func (t *transmitter) count(n int) {
	if c := t.q.p.Traffic; c != nil {
		c.SentPackets++
		c.Sent += uint64(n)
	}
}

// seal completes the FPDU of open, with a number of bytes of payload.
func (t *transmitter) seal(out *Out, b []byte, payload int, f frame) {
	t.count(payload)
	n := len(b)
	f.pos = t.pos
	if t.q.a.SendMarkers {
		n = t.mark(n)
		b = t.arena[t.used : t.used+n]
	}
	if t.q.a.CRC {
		iwarp.PutCRC(b[n-iwarp.CRCLen:], iwarp.UpdateCRC(0, b[:n-iwarp.CRCLen]))
	}
	f.length, f.head, f.inArena, f.front = n, t.used, n, n
	t.used += n
	t.push(out, &f)
}

// mark inserts the markers into the n bytes at used, from the end backwards, and returns the
// length (RFC 5044 4.3).
func (t *transmitter) mark(n int) int {
	const step = iwarp.MarkerSpacing - iwarp.MarkerLen
	// lead is the number of bytes before the first marker.
	lead := (iwarp.MarkerSpacing - t.pos) % iwarp.MarkerSpacing
	if lead >= n {
		t.pos = (t.pos + n) % iwarp.MarkerSpacing
		return n
	}
	markers := (n - lead + step - 1) / step
	length := n + markers*iwarp.MarkerLen
	b := t.arena[t.used : t.used+length]
	start := 0 // of the FPDU, after a marker in front of it
	if lead == 0 {
		start = iwarp.MarkerLen
	}
	for i := markers - 1; i >= 0; i-- {
		at := lead + i*iwarp.MarkerSpacing
		from := lead + i*step
		copy(b[at+iwarp.MarkerLen:], b[from:min(from+step, n)])
		iwarp.PutMarker(b[at:], uint16(max(at-start, 0)))
	}
	t.pos = (t.pos + length) % iwarp.MarkerSpacing
	return length
}

// push adds a frame that is entirely in the arena to the batch.
func (t *transmitter) push(out *Out, f *frame) {
	t.list = append(t.list, *f)
	t.batch += f.length
	t.addArena(out, f.head, f.inArena)
}

// addArena adds bytes of the arena to out, extending the last piece if they follow it.
func (t *transmitter) addArena(out *Out, at, n int) {
	if n == 0 {
		return
	}
	if t.lastEnd == at && t.lastEnd != 0 {
		out.Pieces[len(out.Pieces)-1] = t.arena[t.lastBeg : at+n]
		out.Len += n
	} else {
		t.lastBeg = at
		out.add(t.arena[at : at+n])
	}
	t.lastEnd = at + n
}

// gathered adds an FPDU whose payload is not copied: pieces, n bytes in total. Its header of
// length h is already at used.
func (t *transmitter) gathered(out *Out, h, n int, pieces [][]byte, f frame) {
	pad := iwarp.PadLen(h - iwarp.LengthLen + n)
	tail := t.arena[t.used+h : t.used+h+pad+iwarp.CRCLen]
	clear(tail)
	if t.q.a.CRC {
		sum := iwarp.UpdateCRC(0, t.arena[t.used:t.used+h])
		for _, p := range pieces {
			sum = iwarp.UpdateCRC(sum, p)
		}
		iwarp.PutCRC(tail[pad:], iwarp.UpdateCRC(sum, tail[:pad]))
	}
	f.head, f.front, f.inArena, f.n = t.used, h, h+len(tail), uint32(n)
	f.length = f.inArena + n
	t.used += f.inArena
	t.list = append(t.list, f)
	t.batch += f.length
	t.count(n)
	t.addArena(out, f.head, h)
	for _, p := range pieces {
		out.add(p)
	}
	t.lastEnd = 0
	t.addArena(out, f.head+h, len(tail))
}

// source returns the payload of a frame after the first skip bytes.
func (t *transmitter) source(f *frame, skip uint32) ([][]byte, reason.Detail) {
	if f.req == noRequest {
		var b []byte
		if f.region.Valid() {
			b = f.region.Read(f.addr+uint64(skip), int(f.n-skip))
		}
		if b == nil {
			return nil, reason.Detail{Reason: reason.KeyInvalid, Expected: 1}
		}
		t.pieces = append(t.pieces[:0], b)
		return t.pieces, reason.Detail{}
	}
	t.cursor.Restart()
	p := t.q.p
	var d reason.Detail
	t.pieces, d = t.cursor.Gather(p.Memory, p.PD, p.SQ.SGEs(f.req), uint64(f.off+skip), int(f.n-skip), t.pieces[:0])
	return t.pieces, d
}

// again returns the rest of the batch. It looks its memory up again, because it may have gone
// since.
func (t *transmitter) again(out *Out) reason.Detail {
	t.lastEnd = 0
	skip := t.taken
	for i := t.first; i < len(t.list); i++ {
		if d := t.rest(out, &t.list[i], skip); d.Reason != reason.None {
			return d
		}
		skip = 0
	}
	return reason.Detail{}
}

// rest adds a frame without its first skip bytes to out.
func (t *transmitter) rest(out *Out, f *frame, skip int) reason.Detail {
	if skip < f.front {
		t.addArena(out, f.head+skip, f.front-skip)
		skip = 0
	} else {
		skip -= f.front
	}
	if n := int(f.n); skip < n {
		pieces, d := t.source(f, uint32(skip))
		if d.Reason != reason.None {
			return d
		}
		for _, p := range pieces {
			out.add(p)
		}
		t.lastEnd = 0
		skip = 0
	} else {
		skip -= n
	}
	t.addArena(out, f.head+f.front+skip, f.inArena-f.front-skip)
	return reason.Detail{}
}

// salvage drops the batch except the frame that was partially sent. It returns a copy of the
// rest of that frame, because its memory is flushed next. If the rest cannot be read any more,
// the stream ends in the middle of the frame.
func (t *transmitter) salvage() []byte {
	var b []byte
	if t.pending() {
		t.pos = t.list[t.first].pos
	}
	if t.pending() && t.taken > 0 {
		t.pos = (t.pos + t.list[t.first].length) % iwarp.MarkerSpacing
		var out Out
		if d := t.rest(&out, &t.list[t.first], t.taken); d.Reason == reason.None {
			b = slices.Concat(out.Pieces...)
		} else if t.q.s != nil {
			t.q.s.shut = ShutAbort
		}
	}
	t.drop()
	t.held = t.held[:0]
	return b
}
