package cm

import "time"

// A bucket is a token bucket: it allows a burst of events and is refilled over time.
type bucket struct {
	burst int
	every time.Duration // time that refills one token

	free int
	at   time.Duration // of the last refill
}

func newBucket(burst int, every time.Duration) bucket {
	return bucket{burst: burst, every: every, free: burst}
}

// take removes a token and reports whether there was one.
func (b *bucket) take(now time.Duration) bool {
	if n := (now - b.at) / b.every; n > 0 {
		b.free = int(min(time.Duration(b.burst), time.Duration(b.free)+n))
		b.at += n * b.every
	}
	if b.free == 0 {
		return false
	}
	b.free--
	return true
}

// put returns a token.
func (b *bucket) put() { b.free = min(b.free+1, b.burst) }
