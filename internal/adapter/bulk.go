package adapter

import "time"

const (
	// bulkAfter is how much a lane receives without a pause until its goroutine
	// sleeps by the clock where it would look for more: much more than a message
	// that somebody waits for alone.
	bulkAfter = 8 << 20

	// bulkNap is how long it sleeps then. The system makes it 80 µs at normal
	// priority: a few hundred KiB of a fast stream, which socket buffers and
	// windows hold.
	bulkNap = 30 * time.Microsecond

	// bulkLeast is what has to come during a nap for another one.
	bulkLeast = 128 << 10
)

// A bulk tells when what a lane receives is a long stream. Looking for each
// next batch of it takes as much of the processor as receiving it; packets that
// have gathered for a while cost the least.
type bulk struct {
	fed  uint64 // bytes since the lane's goroutine slept for the lack of any
	last uint64 // fed at the last nap
}

// add counts what was received.
func (b *bulk) add(n int) { b.fed += uint64(n) }

// dry tells, when there is nothing to receive, whether to sleep by the clock.
func (b *bulk) dry() bool {
	if b.fed < bulkAfter {
		return false
	}
	if b.last != 0 && b.fed-b.last < bulkLeast {
		b.end()
		return false
	}
	b.last = b.fed
	return true
}

// end forgets the stream.
func (b *bulk) end() { *b = bulk{} }
