// Package seq compares the sequence numbers of a requester. A sequence number is a PSN
// that continues beyond 24 bits, so that a READ of 2^23 packets can be told from
// one of none. The low 24 bits are the PSN.
package seq

import "softrdma/internal/psn"

// Before reports whether a comes before b.
func Before(a, b uint32) bool { return int32(a-b) < 0 }

// Max returns the later of two sequence numbers.
func Max(a, b uint32) uint32 {
	if Before(a, b) {
		return b
	}
	return a
}

// Min returns the earlier of two sequence numbers.
func Min(a, b uint32) uint32 {
	if Before(b, a) {
		return b
	}
	return a
}

// Near returns the sequence number of a PSN that lies within 2^23 of n.
func Near(n uint32, p psn.PSN) uint32 { return n + uint32(p.Sub(psn.New(n))) }

// Detail returns the PSN of a sequence number as reason.Detail takes it.
func Detail(n uint32) uint64 { return uint64(psn.New(n)) }
