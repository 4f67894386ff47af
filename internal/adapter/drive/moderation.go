package drive

import "time"

const (
	// moderateAfter is how many bytes a lane receives without a pause until its worker
	// sleeps by the clock where it would look for more: much more than a message that
	// a caller waits for alone.
	moderateAfter = 8 << 20

	// moderateTime is how long it sleeps then. The system makes it 80 µs at normal
	// priority: a few hundred KiB of a fast stream, which socket buffers and
	// windows hold.
	moderateTime = 30 * time.Microsecond

	// moderateLeast is how many bytes have to come during such a sleep for another one.
	moderateLeast = 128 << 10
)

// A moderation decides when packets are received in bulk only, as an adapter's
// interrupt moderation does. In a long stream, looking for each next batch takes as
// much of the processor as receiving it; packets that have gathered for a while cost
// the least.
type moderation struct {
	received uint64 // bytes since the worker slept for the lack of any
	last     uint64 // received at the last sleep
}

// add counts what was received.
func (m *moderation) add(n int) { m.received += uint64(n) }

// due reports, when there is nothing to receive, whether to sleep by the clock.
func (m *moderation) due() bool {
	if m.received < moderateAfter {
		return false
	}
	if m.last != 0 && m.received-m.last < moderateLeast {
		m.end()
		return false
	}
	m.last = m.received
	return true
}

// end forgets the stream.
func (m *moderation) end() { *m = moderation{} }
