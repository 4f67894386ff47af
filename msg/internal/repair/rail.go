// Package repair says when an end tries to connect again: a rail that has failed, or with a request whose
// answer does not come. It makes no connection.
package repair

import (
	"context"
	"time"

	"softrdma/internal/waiting"
	"softrdma/verbs"
)

// The pauses before attempts to connect a rail. Each is twice the one before it, until the rail has worked
// for LastPause.
const (
	FirstPause = 100 * time.Millisecond
	LastPause  = 10 * time.Second
)

// A Rail is one that may have to be connected again. The owner's lock guards it; Wait needs no lock.
type Rail struct {
	active bool            // a goroutine makes attempts
	pauses waiting.Backoff // before attempts
	since  time.Time       // when the rail was connected last
}

// Begin reports whether the caller makes attempts from now on, because no other goroutine does: Wait, the attempt, and
// Settle, until that reports false.
func (r *Rail) Begin() bool {
	if r.active {
		return false
	}
	r.active = true
	if time.Since(r.since) > LastPause {
		r.pauses.Reset()
	}
	return true
}

// Wait waits until it is time for an attempt, or ctx has ended.
func (r *Rail) Wait(ctx context.Context) {
	r.pauses.First, r.pauses.Last = FirstPause, LastPause
	_ = r.pauses.Wait(ctx) // the attempt notices the end
}

// Settle takes the result of an attempt, and reports whether another one follows. It does if again is set.
func (r *Rail) Settle(connected, again bool) bool {
	if connected {
		r.since = time.Now()
	}
	r.active = again
	return again
}

// ResponseTimeout returns after how long a request, or the reply, is sent again, as the exponent of
// rdmacm.Dialer, 0 for its default. The queue pair of the end that has replied watches for its peer from
// then on. So a lost reply has to be repeated several times within the time after which the peer counts as
// silent. Over iWARP, TCP repeats them.
func ResponseTimeout(peer time.Duration, p verbs.Protocol) uint8 {
	const most = 20 // the default
	if p == verbs.IWARP {
		return 0
	}
	n := uint8(most)
	for n > 1 && 4096*time.Nanosecond<<n > peer/4 {
		n--
	}
	return n
}
