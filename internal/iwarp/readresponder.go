package iwarp

import (
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/iwarp"
)

// A serving is a READ or atomic of the peer that is not completely answered.
type serving struct {
	read   iwarp.Read
	pos    uint32 // bytes of the READ built so far
	msn    uint32
	region *memory.Region // nil for a READ of no bytes
	atomic bool
	value  iwarp.AtomicValue
}

// A reader answers the peer's READs and atomics, in order.
type reader struct {
	q *QP
	p *machine.Port

	ring          []serving // with IRD entries
	oldest, count int
	turns         uint8
}

func (r *reader) start() {
	r.stop()
	if n := int(r.q.a.IRD); len(r.ring) != n {
		r.ring = make([]serving, n)
	}
}

func (r *reader) stop() {
	clear(r.ring)
	r.oldest, r.count, r.turns = 0, 0, 0
}

func (r *reader) reset() { *r = reader{q: r.q, p: r.p} }

// sending reports whether a response is partially built.
func (r *reader) sending() bool { return r.count > 0 && r.ring[r.oldest].pos > 0 }

// hold finds room for another READ or atomic.
func (r *reader) hold(now time.Duration, h []byte) *serving {
	if r.count < len(r.ring) {
		s := &r.ring[(r.oldest+r.count)%len(r.ring)]
		*s = serving{}
		r.count++
		return s
	}
	// RFC 5041 7.2: the queue has no buffer for the message. Linux's siw reports a
	// catastrophic error of the stream here.
	r.q.fatal(now, iwarp.TermUntaggedBuffer, h, invalid(reason.Detail{Reason: reason.TooManyReads, Expected: uint64(len(r.ring)), Found: uint64(len(r.ring)) + 1}))
	return nil
}

// read handles a READ request (RFC 5040 5.2.1).
func (r *reader) read(now time.Duration, h []byte) {
	var m iwarp.Read
	m.Parse(h[iwarp.UntaggedLen:])
	msn := r.q.rx.seg.MSN
	s := r.hold(now, h)
	if s == nil {
		return
	}
	s.read, s.msn = m, msn
	if m.Size == 0 {
		return
	}
	var d reason.Detail
	if s.region, d = r.look(m.SourceSTag, m.SourceTO, uint64(m.Size), qp.RemoteRead); d.Reason != reason.None {
		r.count--
		r.q.fatal(now, protectionTerm(d, m.SourceTO+uint64(m.Size) < m.SourceTO), h, denied(d))
	}
}

// look finds the region of an STag and checks the access to it.
func (r *reader) look(stag uint32, to, n uint64, access qp.Access) (*memory.Region, reason.Detail) {
	if r.p.Attr.Access&access != access {
		return nil, reason.Detail{Reason: reason.QPAccess, Expected: uint64(access), Found: uint64(r.p.Attr.Access)}
	}
	return r.q.rx.find(stag, to, n, access)
}

// atomic executes an atomic (RFC 7306 5).
func (r *reader) atomic(now time.Duration, h []byte) {
	var m iwarp.Atomic
	m.Parse(h[iwarp.UntaggedLen:])
	if m.Op != iwarp.FetchAdd && m.Op != iwarp.CompareSwap {
		r.q.fatal(now, iwarp.TermOperationOther, h, invalid(reason.Detail{Reason: reason.RDMAPAtomic, Expected: uint64(iwarp.CompareSwap), Found: uint64(m.Op)}))
		return
	}
	msn := r.q.rx.seg.MSN
	s := r.hold(now, h)
	if s == nil {
		return
	}
	region, d := r.look(m.STag, m.TO, 8, qp.RemoteAtomic)
	if d.Reason != reason.None {
		r.count--
		r.q.fatal(now, protectionTerm(d, m.TO+8 < m.TO), h, denied(d))
		return
	}
	if m.TO&7 != 0 || region.Word(m.TO) == nil {
		r.count--
		// RFC 7306 8.2 names the error.
		r.q.fatal(now, iwarp.TermOperationStream, h, invalid(reason.Detail{Reason: reason.AtomicAlignment, Expected: 8, Found: m.TO}))
		return
	}
	old, ok := apply(region, &m)
	if !ok {
		r.count--
		r.q.fatal(now, iwarp.TermProtectionSTag, h, denied(reason.Detail{Reason: reason.MemoryUnmapped, Expected: 8, Found: m.TO}))
		return
	}
	*s = serving{atomic: true, msn: msn, value: iwarp.AtomicValue{ID: m.ID, Value: old}}
}

// apply executes an atomic and returns the previous value of the word. Atomics with masks,
// which the verbs do not have, repeat a compare-and-swap until it succeeds.
func apply(region *memory.Region, m *iwarp.Atomic) (old uint64, ok bool) {
	all := m.AddSwapMask&m.CompareMask == ^uint64(0)
	switch {
	case m.Op == iwarp.FetchAdd && m.AddSwapMask == 0:
		return region.FetchAdd(m.TO, m.AddSwap)
	case m.Op == iwarp.CompareSwap && all:
		return region.CompareSwap(m.TO, m.Compare, m.AddSwap)
	}
	for {
		if old, ok = region.FetchAdd(m.TO, 0); !ok {
			return old, false
		}
		v, changes := m.Apply(old)
		if !changes {
			return old, true
		}
		if was, ok := region.CompareSwap(m.TO, old, v); !ok || was == old {
			return old, ok
		}
	}
}

// next builds the next FPDU of the oldest response.
func (r *reader) next(now time.Duration, out *Out) bool {
	s := &r.ring[r.oldest]
	if s.atomic {
		return r.answerAtomic(s, out)
	}
	t := &r.q.tx
	n := s.read.Size - s.pos
	last := int64(n) <= int64(t.payload(iwarp.TaggedLen))
	if !last {
		n = uint32(t.payload(iwarp.TaggedLen))
	}
	// With CRCs the payload is copied: the memory may be changing, and the CRC must match the
	// sent bytes.
	copied := r.q.a.CRC || r.q.a.SendMarkers || n <= copyBelow
	inArena := iwarp.TaggedLen + iwarp.CRCLen + 4
	if copied {
		inArena += int(n)
	}
	if !t.room(out, inArena, 1) {
		return false
	}
	var b []byte
	if n > 0 {
		if s.region.Valid() {
			b = s.region.Read(s.read.SourceTO+uint64(s.pos), int(n))
		}
		if b == nil {
			r.giveUp(now, s)
			return false
		}
	}
	h := iwarp.Segment{
		Length: uint16(iwarp.TaggedLen - iwarp.LengthLen + int(n)), Tagged: true, Last: last, Opcode: iwarp.ReadResponse,
		STag: s.read.SinkSTag, TO: s.read.SinkTO + uint64(s.pos),
	}
	if copied {
		p := t.open(int(h.Length))
		copy(p[h.Put(p):], b)
		t.seal(out, p, int(n), frame{done: noRequest})
	} else {
		h.Put(t.arena[t.used:])
		t.pieces = append(t.pieces[:0], b)
		t.gathered(out, iwarp.TaggedLen, int(n), t.pieces, frame{done: noRequest, req: noRequest, region: s.region, addr: s.read.SourceTO + uint64(s.pos)})
	}
	s.pos += n
	if last {
		r.forget(s)
	}
	return true
}

func (r *reader) forget(s *serving) {
	*s = serving{}
	r.oldest = (r.oldest + 1) % len(r.ring)
	r.count--
}

// answerAtomic builds an Atomic Response (RFC 7306 5.2.2). Responses have a separate queue,
// but messages of both kinds are answered in one order.
func (r *reader) answerAtomic(s *serving, out *Out) bool {
	t := &r.q.tx
	const ulpdu = iwarp.UntaggedLen - iwarp.LengthLen + iwarp.AtomicValueLen
	if !t.room(out, iwarp.FPDULen(ulpdu), 0) {
		return false
	}
	r.q.rx.responseMSN++
	h := iwarp.Segment{Length: ulpdu, Last: true, Opcode: iwarp.AtomicResponse, Queue: iwarp.QueueAtomicResponse, MSN: r.q.rx.responseMSN}
	b := t.open(ulpdu)
	s.value.Put(b[h.Put(b):])
	t.seal(out, b, 0, frame{done: noRequest})
	r.forget(s)
	return true
}

// giveUp ends a READ whose memory was removed during the answer. The Terminate has the header
// of the request for the rest (RFC 5040 4.8).
func (r *reader) giveUp(now time.Duration, s *serving) {
	var b [iwarp.UntaggedLen + iwarp.ReadLen]byte
	h := iwarp.Segment{
		Length: uint16(len(b) - iwarp.LengthLen), Last: true, Opcode: iwarp.ReadRequest,
		Queue: iwarp.QueueRead, MSN: s.msn,
	}
	left := s.read
	left.SinkTO, left.SourceTO, left.Size = left.SinkTO+uint64(s.pos), left.SourceTO+uint64(s.pos), left.Size-s.pos
	left.Put(b[h.Put(b[:]):])
	r.q.fatal(now, iwarp.TermProtectionSTag, b[:], denied(reason.Detail{Reason: reason.KeyInvalid, Expected: 1}))
}
