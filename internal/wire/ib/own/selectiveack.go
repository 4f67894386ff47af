package own

import "encoding/binary"

const (
	// SelectiveAckLen is the length of a selective acknowledge's payload without
	// ranges, RangeLen that of one.
	SelectiveAckLen = 4
	RangeLen        = 4

	// MaxRanges bounds the ranges of one selective acknowledge.
	MaxRanges = 120
)

// The payload of a selective acknowledge lists the requests that its sender holds
// after the first one that it misses. BTH and AETH are those of an
// ordinary acknowledge: everything up to the PSN was executed, if not yet
// answered.
//
//	+---------------------------------------------------------------+
//	|                          Duplicates                           |
//	+-------------------------------+-------------------------------+
//	|             Skip              |             Count             |  ranges, any number
//	+-------------------------------+-------------------------------+
//
// Duplicates counts the requests that arrived twice on this connection.
// The first range begins Skip PSNs after the PSN expected next, each other one Skip PSNs
// after the end of the range before. The sender holds Count PSNs of it.

// Duplicates reads the count off the payload of a selective acknowledge, and
// reports whether the payload is one.
func Duplicates(payload []byte) (n uint32, ok bool) {
	if len(payload) < SelectiveAckLen || len(payload)%RangeLen != 0 || len(payload) > SelectiveAckLen+MaxRanges*RangeLen {
		return 0, false
	}
	return binary.BigEndian.Uint32(payload), true
}

// Ranges returns the number of ranges in the payload of a selective acknowledge.
func Ranges(payload []byte) int { return (len(payload) - SelectiveAckLen) / RangeLen }

// Range reads the i-th range.
func Range(payload []byte, i int) (skip, count uint32) {
	return RangeOf(payload[SelectiveAckLen:], i)
}

// AppendDuplicates begins the payload of a selective acknowledge.
func AppendDuplicates(b []byte, n uint32) []byte { return binary.BigEndian.AppendUint32(b, n) }

// AppendRange appends a range.
func AppendRange(b []byte, skip, count uint16) []byte {
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(b, skip), count)
}
