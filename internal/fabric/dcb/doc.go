// Package dcb is what the ports of Ethernet switches and hosts have in common (IEEE 802.1Q data
// center bridging): frames with their classification, a queue for each of eight priorities,
// transmission selection, and both sides of priority-based flow control and of 802.3x pauses.
//
//	          +------------------- Port --------------------+
//	Push ---->| queue of each priority -> selection          |----> Next
//	          |            ^ paused?                         |
//	Paused -->| pauses by the neighbor     pauses for it     |<---- Stop, Go
//	          +----------------------------------------------+
//
// A port does not know what it is a part of: package bridge makes switches of ports, package
// station the port of a host, package lan a network of both.
//
// The package does no I/O and reads no clock. A port belongs to one goroutine at a time, as do the
// frames and the pool.
package dcb

import (
	"time"

	"softrdma/internal/wire/ethernet"
)

// A Time is a time since the beginning, or a duration, in picoseconds. A byte takes a whole number
// of them at each speed of Ethernet from 10 Mbit/s to 800 Gbit/s.
type Time int64

// Some times.
const (
	Nanosecond  Time = 1000
	Microsecond      = 1000 * Nanosecond
	Millisecond      = 1000 * Microsecond
	Second           = 1000 * Millisecond

	Never Time = 1<<63 - 1
)

// FromDuration returns the time of a duration.
func FromDuration(d time.Duration) Time { return Time(d) * Nanosecond }

// Duration returns the time in whole nanoseconds.
func (t Time) Duration() time.Duration { return time.Duration(t / Nanosecond) }

// DurationUp returns the time in whole nanoseconds, rounded up. Never stays the last time.
func (t Time) DurationUp() time.Duration {
	if d := t.Duration(); t == Never || FromDuration(d) == t {
		return d
	}
	return (t + Nanosecond).Duration()
}

// A Speed is the speed of a link in bits per second.
type Speed uint64

// Some speeds.
const (
	Mbit Speed = 1e6
	Gbit Speed = 1e9
)

// bitsPerByteTime is the number of bits of a byte times the picoseconds of a second.
const bitsPerByteTime = 8e12

// PerByte returns the time that a byte takes.
func (s Speed) PerByte() Time { return Time(bitsPerByteTime / s) }

// Quanta returns the time of n pause quanta (802.3 31B.2).
func (s Speed) Quanta(n int) Time { return Time(n) * ethernet.QuantumBits / 8 * s.PerByte() }

// WireLen returns the number of byte times that a frame takes on a link, with the gap behind it.
func WireLen(length int) int { return length + ethernet.GapLen }

// MinFrame is the length of the shortest frame, and of a frame that pauses, with its check
// sequence.
const MinFrame = ethernet.MinLen + ethernet.CheckLen
