// Package relook decides when to look again at a queue whose producer announces nothing. The
// interval doubles while nothing is found. The package looks at no queue itself.
package relook

import "time"

const (
	first = time.Millisecond      // after the last look that found something
	last  = 64 * time.Millisecond // the longest interval
)

// A Look is when to look next.
type Look struct {
	At       time.Duration
	interval time.Duration
}

// Begin returns a Look that begins now.
func Begin(now time.Duration) *Look { return &Look{At: now + first, interval: first} }

// Next sets when to look again, after a look now that found something or not.
func (l *Look) Next(now time.Duration, found bool) {
	l.interval = min(2*l.interval, last)
	if found {
		l.interval = first
	}
	l.At = now + l.interval
}
