package drive

import "time"

const (
	// moderateAfter is the number of bytes that a lane receives in one stream before its
	// worker sleeps by the clock instead of looking for more: much more than a message
	// that a caller waits for alone.
	moderateAfter = 8 << 20

	// moderateTime is how long it sleeps then. The system makes it 80 µs at normal
	// priority: a few hundred KiB of a fast stream, which socket buffers and
	// windows hold.
	moderateTime = 30 * time.Microsecond

	// moderateLeast is the number of bytes that must come during such a sleep for another
	// one. Fewer end the stream, so a caller that waits for each message loses at most
	// one sleep in moderateAfter bytes.
	moderateLeast = 32 << 10

	// moderateGap is the longest sleep in the link within a stream. A sender that is
	// slower than the receiver lets the link run empty after each batch.
	moderateGap = 250 * time.Microsecond
)

// A moderation decides when packets are received in bulk only, as an adapter's
// interrupt moderation does. In a long stream, looking for each next batch takes as much
// of the processor as receiving it, and so does waking for it. Packets that have gathered
// for a while cost the least, and their sender is not slowed down by a receiver that looks
// into the same queue.
type moderation struct {
	received uint64 // bytes of the stream
	last     uint64 // received at the last sleep by the clock
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

// slept notes a sleep in the link. A long one ends the stream.
func (m *moderation) slept(t time.Duration) {
	if t > moderateGap {
		m.end()
	}
}

func (m *moderation) end() { *m = moderation{} }
