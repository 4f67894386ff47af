// Package reorder is a responder's reorder buffer: copies of requests that arrived
// behind a lost one. It orders them by PSN and bounds their memory; it checks and
// executes nothing.
package reorder

import (
	"bytes"
	"slices"
	"sort"

	"softrdma/internal/machine"
	"softrdma/internal/psn"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/ib/own"
)

// A Buffer holds the requests of one connection.
type Buffer struct {
	runs []run   // by PSN
	news uint8   // requests held since the last report
	from psn.PSN // the lowest and the highest of them, see ReportNews
	to   psn.PSN
	told [own.WideAckLen + own.MaxRanges*own.RangeLen]byte
}

// MaxRuns bounds the runs of a buffer, and with them the time that one more takes. A softrdma requester
// goes back to the first missing packet before there are as many (scoreboard.MaxHoles).
const MaxRuns = 8192

// A run is a list of requests without a gap.
type run struct {
	first, end psn.PSN
	head, tail *Request
}

// A Request is the copy of a request.
type Request struct {
	machine.In
	Count uint32 // PSNs that it takes

	next  *Request
	class uint8
	room  []byte
}

// reportEvery is the number of requests held after which the peer is told, in addition
// to the begin and the end of a range.
const reportEvery = 4

// Empty reports whether no request is held.
func (b *Buffer) Empty() bool { return len(b.runs) == 0 }

// First is the held request with the lowest PSN; there must be one.
func (b *Buffer) First() *Request { return b.runs[0].head }

// Place returns where a request with PSN p belongs, for Insert and Find, and whether a
// held request covers p already.
func (b *Buffer) Place(p psn.PSN) (at int, covered bool) {
	at = len(b.runs) - 1
	if at >= 0 && p.Before(b.runs[at].first) { // mostly, new requests come at the end
		at = sort.Search(at, func(i int) bool { return p.Before(b.runs[i].first) }) - 1
	}
	return at, at >= 0 && p.Before(b.runs[at].end)
}

// Fits reports whether a request with PSN p that takes count PSNs fits in at the place that Place
// returned: there are not too many runs, or it needs none of its own.
func (b *Buffer) Fits(at int, p psn.PSN, count uint32) bool {
	return len(b.runs) < MaxRuns || at >= 0 && b.runs[at].end == p ||
		at+1 < len(b.runs) && b.runs[at+1].first == p.Add(int(count))
}

// Find returns the held request that begins at PSN p, nil if there is none.
func (b *Buffer) Find(at int, p psn.PSN) *Request {
	for h := b.runs[at].head; h != nil && !h.PSN.After(p); h = h.next {
		if h.PSN == p {
			return h
		}
	}
	return nil
}

// Contradicts reports whether a request cannot be a repetition of the held one, though
// it has its PSN. A READ may be asked for in part (IBTA 9.7.5.1).
func (h *Request) Contradicts(in *machine.In, info *ib.Info) bool {
	has := info.Headers
	return h.Opcode != in.Opcode || !bytes.Equal(h.Payload, in.Payload) ||
		has&ib.HasFETH != 0 && h.FETH != in.FETH ||
		has&ib.HasRETH != 0 && (h.RETH.Addr != in.RETH.Addr || h.RETH.RKey != in.RETH.RKey ||
			info.Kind != ib.KindReadRequest && h.RETH.Length != in.RETH.Length) ||
		has&ib.HasAtomicETH != 0 && h.AtomicETH != in.AtomicETH ||
		has&ib.HasImmDt != 0 && h.Imm != in.Imm || has&ib.HasIETH != 0 && h.IETH != in.IETH
}

// Insert adds a request at the place that Place returned. It reports whether the peer
// should be told now: a range begins or ends with the request, or several requests have
// been held since the last report.
func (b *Buffer) Insert(at int, h *Request) (report bool) {
	edge := b.insert(at, h)
	if b.news == 0 || h.PSN.Before(b.from) {
		b.from = h.PSN
	}
	if b.news == 0 || h.PSN.After(b.to) {
		b.to = h.PSN
	}
	b.news = min(b.news+1, reportEvery)
	return edge || b.news >= reportEvery
}

func (b *Buffer) insert(at int, h *Request) (edge bool) {
	end := h.PSN.Add(int(h.Count))
	joins := at+1 < len(b.runs) && b.runs[at+1].first == end
	switch {
	case at >= 0 && b.runs[at].end == h.PSN:
		u := &b.runs[at]
		u.tail.next, u.tail, u.end = h, h, end
		if joins {
			v := &b.runs[at+1]
			u.tail.next, u.tail, u.end = v.head, v.tail, v.end
			b.runs = slices.Delete(b.runs, at+1, at+2)
		}
		return joins
	case joins:
		v := &b.runs[at+1]
		h.next, v.head, v.first = v.head, h, h.PSN
		return true
	}
	b.runs = slices.Insert(b.runs, at+1, run{first: h.PSN, end: end, head: h, tail: h})
	return true
}

// Pop removes the first request and returns it.
func (b *Buffer) Pop() *Request {
	u := &b.runs[0]
	h := u.head
	u.head, u.first = h.next, h.PSN.Add(int(h.Count))
	if u.head == nil {
		b.runs = slices.Delete(b.runs, 0, 1)
	}
	return h
}

// Cut removes the requests from PSN p on, gives them back to the pool, and returns how
// many there were.
func (b *Buffer) Cut(p psn.PSN, pool *Pool) (n int) {
	for i := len(b.runs) - 1; i >= 0 && b.runs[i].end.After(p); i-- {
		u := &b.runs[i]
		var keep *Request // the last one before p
		h := u.head
		for h != nil && h.PSN.Before(p) {
			keep, h = h, h.next
		}
		for h != nil {
			next := h.next
			pool.Free(h)
			h = next
			n++
		}
		if keep == nil {
			b.runs = b.runs[:i]
			continue
		}
		keep.next = nil
		u.tail, u.end = keep, keep.PSN.Add(int(keep.Count))
	}
	return n
}

// Drop removes all requests and gives them back to the pool.
func (b *Buffer) Drop(pool *Pool) {
	for i := range b.runs {
		for h := b.runs[i].head; h != nil; {
			next := h.next
			pool.Free(h)
			h = next
		}
	}
	b.runs = b.runs[:0]
}

// Report builds the payload of a selective acknowledge with the number of duplicates
// and the ranges that are held behind the expected PSN. It is valid until the next call.
func (b *Buffer) Report(duplicates uint32, expected psn.PSN) []byte {
	b.news = 0
	told := own.AppendDuplicates(b.told[:0], duplicates)
	at := expected
	for _, u := range b.runs[:min(len(b.runs), own.MaxRanges)] {
		if u.first.Before(at) {
			continue // a tail-loss probe of a READ that has arrived as well
		}
		told = own.AppendRange(told, uint16(u.first.Sub(at)), uint16(u.end.Sub(u.first)))
		at = u.end
	}
	return told
}

// overlap is the number of runs before the first new one that are reported again, in case the
// report of them was lost.
const overlap = own.MaxRanges / 3

// ReportNews builds the payload of a wide acknowledge: those of the ranges behind the expected PSN
// that are new since the last report, and some before them. It reports whether others are left for
// a further report. The payload is valid until the next call.
func (b *Buffer) ReportNews(w own.WideAck, expected psn.PSN) (payload []byte, more bool) {
	first := 0
	if b.news > 0 && len(b.runs) > own.MaxRanges {
		at, _ := b.Place(b.from)
		first = max(at-overlap, 0)
	}
	at := expected
	if first > 0 {
		at = b.runs[first-1].end
		w.Begin = uint32(at.Sub(expected))
	}
	told := w.Append(b.told[:0])
	for _, u := range b.runs[first:] {
		if u.first.Before(at) {
			continue // a tail-loss probe of a READ that has arrived as well
		}
		skip, count := uint32(u.first.Sub(at)), uint32(u.end.Sub(u.first))
		if (len(told)-own.WideAckLen)/own.RangeLen+own.LongRange(skip, count) > own.MaxRanges {
			if b.news > 0 && !u.first.After(b.to) {
				b.from = u.first
				return told, true
			}
			break
		}
		told = own.AppendLongRange(told, skip, count)
		at = u.end
	}
	b.news = 0
	return told, false
}
