package own

import "encoding/binary"

// WideAckLen is the length of a wide acknowledge's payload without ranges.
const WideAckLen = 16

// A WideAck begins the payload of a selective acknowledge with the W bit, which answers requests
// that have it (see ib.BTH). Ranges follow, as in a selective acknowledge without it.
//
//	+---------------------------------------------------------------+
//	|                          Duplicates                           |
//	+---------------------------------------------------------------+
//	|                             Span                              |
//	+---------------------------------------------------------------+
//	|                             Begin                             |
//	+---------------------------------------------------------------+
//	|                             Kept                              |
//	+-------------------------------+-------------------------------+
//	|             Skip              |             Count             |  ranges, any number
//	+-------------------------------+-------------------------------+
//
// The sender holds requests up to Span PSNs from the one expected next on. The first range begins
// Skip PSNs after the one that is Begin PSNs after it. Nothing is said of those before, so that
// an acknowledge can tell what is new among more ranges than fit into it. A gap or a range of more
// than 65,535 PSNs takes several entries.
//
// The sender remembers Kept READs and atomics, so that as many may be outstanding.
type WideAck struct{ Duplicates, Span, Begin, Kept uint32 }

// ParseWideAck reads the payload of a wide acknowledge, and reports whether it is one. The rest
// is as long as a selective acknowledge's ranges.
func ParseWideAck(payload []byte) (w WideAck, ranges []byte, ok bool) {
	if len(payload) < WideAckLen || (len(payload)-WideAckLen)%RangeLen != 0 || len(payload) > WideAckLen+MaxRanges*RangeLen {
		return w, nil, false
	}
	w.Duplicates, w.Span = binary.BigEndian.Uint32(payload), binary.BigEndian.Uint32(payload[4:])
	w.Begin, w.Kept = binary.BigEndian.Uint32(payload[8:]), binary.BigEndian.Uint32(payload[12:])
	return w, payload[WideAckLen:], true
}

// Append appends the payload without ranges.
func (w *WideAck) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, w.Duplicates)
	b = binary.BigEndian.AppendUint32(b, w.Span)
	b = binary.BigEndian.AppendUint32(b, w.Begin)
	return binary.BigEndian.AppendUint32(b, w.Kept)
}

// longest is the longest gap or range of one entry.
const longest = 1<<16 - 1

// AppendLongRange appends a range of any length. It takes as many entries as LongRange says.
func AppendLongRange(b []byte, skip, count uint32) []byte {
	for ; skip > longest; skip -= longest {
		b = AppendRange(b, longest, 0)
	}
	for ; count > longest; count -= longest {
		b = AppendRange(b, uint16(skip), longest)
		skip = 0
	}
	return AppendRange(b, uint16(skip), uint16(count))
}

// LongRange returns the number of entries that a range takes.
func LongRange(skip, count uint32) int {
	return 1 + int(max(skip, 1)-1)/longest + int(max(count, 1)-1)/longest
}

// RangeOf reads the i-th entry of ranges.
func RangeOf(ranges []byte, i int) (skip, count uint32) {
	b := ranges[i*RangeLen:]
	return uint32(binary.BigEndian.Uint16(b)), uint32(binary.BigEndian.Uint16(b[2:]))
}
