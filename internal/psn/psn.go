// Package psn is the arithmetic of packet sequence numbers: 24 bits that wrap (IBTA 9.7.2).
// All code that compares or advances a PSN or an MSN uses it. No other code masks 24 bits.
package psn

import "fmt"

// Bits is the width of a sequence number on the wire.
const Bits = 24

const mask = 1<<Bits - 1

// A PSN is a 24-bit sequence number. Values made with New or Add are in range.
type PSN uint32

// New reduces v modulo 2^24.
func New(v uint32) PSN { return PSN(v & mask) }

// Add returns p advanced by n, which may be negative.
func (p PSN) Add(n int) PSN { return PSN((uint32(p) + uint32(n)) & mask) }

// Next returns p advanced by one.
func (p PSN) Next() PSN { return p.Add(1) }

// Sub returns the signed distance p-q in [-2^23, 2^23), which is positive if p is later than
// q. IBTA 9.7.2: the other half of the space is the past.
func (p PSN) Sub(q PSN) int { return int(int32(uint32(p-q)<<(32-Bits)) >> (32 - Bits)) }

// Before reports whether p is earlier than q.
func (p PSN) Before(q PSN) bool { return p.Sub(q) < 0 }

// After reports whether p is later than q.
func (p PSN) After(q PSN) bool { return p.Sub(q) > 0 }

// String returns the number in hexadecimal, as packet analysers print it.
func (p PSN) String() string { return fmt.Sprintf("0x%06x", uint32(p)) }
