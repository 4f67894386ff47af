package trunk

import (
	"time"
)

// Times of retransmission.
const (
	firstTimeout = 100 * time.Millisecond // before a round trip was measured
	leastTimeout = 5 * time.Millisecond
	mostTimeout  = 500 * time.Millisecond
)

const (
	// firstNumber is that of the first segment. It is near the end of the numbers, so that
	// every session soon wraps around and a mistake there does not hide.
	firstNumber = ^uint32(0) - 1000

	leastWindow = 4
	firstWindow = 16

	// reordering is how many later transmissions must arrive before a segment counts as lost.
	reordering = 3
)

// A segment is a part of the stream, in the packet that carries it.
type segment struct {
	packet []byte // of capacity MaxPacket; the payload begins at dataLen
	order  uint64 // number of its last transmission
	sent   time.Duration
	again  bool // was transmitted more than once
	acked  bool
	lost   bool
}

// A sender sends a stream as segments, until the peer has acknowledged them.
type sender struct {
	queue []*segment // from head on: unacknowledged ones, then those not yet sent
	head  int
	sent  int    // segments from head on that were transmitted
	first uint32 // number of the one at head
	free  []*segment

	flying int // transmitted, neither acknowledged nor lost
	lost   int

	order    uint64 // transmissions so far
	arrived  uint64 // the latest transmission that was acknowledged
	recovery uint64 // the transmissions when the window was last reduced
	room     float64

	smooth, deviation time.Duration // of the round trip; smooth is 0 before the first
	backoff           uint
	timer             time.Duration // retransmission; never if nothing is under way
}

func (s *sender) init() { s.first, s.room, s.timer = firstNumber, firstWindow, Never }

// waiting is the number of segments that were not acknowledged.
func (s *sender) waiting() int { return len(s.queue) - s.head }

// write appends to the stream.
func (s *sender) write(b []byte) {
	for len(b) > 0 {
		if s.waiting() == s.sent || len(s.queue[len(s.queue)-1].packet) == MaxPacket {
			s.grow()
		}
		x := s.queue[len(s.queue)-1]
		n := min(len(b), MaxPacket-len(x.packet))
		x.packet = append(x.packet, b[:n]...)
		b = b[n:]
	}
}

// grow appends an empty segment.
func (s *sender) grow() {
	if s.head > 0 && len(s.queue) == cap(s.queue) {
		s.queue = append(s.queue[:0], s.queue[s.head:]...)
		s.head = 0
	}
	if n := len(s.free); n > 0 {
		s.queue = append(s.queue, s.free[n-1])
		s.free = s.free[:n-1]
		return
	}
	s.queue = append(s.queue, &segment{packet: make([]byte, dataLen, MaxPacket)})
}

// ready reports whether a segment may leave now.
func (s *sender) ready() bool {
	return s.flying < int(s.room) && (s.lost > 0 || s.sent < min(s.waiting(), window))
}

// next transmits a segment, if one may leave now, and returns it with its number.
func (s *sender) next(now time.Duration) (*segment, uint32) {
	if !s.ready() {
		return nil, 0
	}
	at := s.sent
	if s.lost > 0 {
		for at = 0; !s.queue[s.head+at].lost; at++ {
		}
		s.lost--
	} else {
		s.sent++
	}
	x := s.queue[s.head+at]
	x.again = x.order > 0
	x.lost = false
	s.order++
	s.flying++
	x.order, x.sent = s.order, now
	if s.timer == Never {
		s.timer = now + s.timeout()
	}
	return x, s.first + uint32(at)
}

// acknowledge takes an acknowledgement. It reports false for one of segments that were never
// sent.
func (s *sender) acknowledge(now time.Duration, a *ack) bool {
	n := int32(a.awaited - s.first)
	if n < 0 { // overtaken by a later one
		return true
	}
	if int(n) > s.sent {
		return false
	}
	some := false
	for i := range int(n) {
		some = s.arrive(now, s.queue[s.head+i]) || some
	}
	s.release(int(n))
	for i := range uint32(window - 1) {
		if !a.early.has(i) {
			continue
		}
		if int(i)+1 >= s.sent {
			return false
		}
		some = s.arrive(now, s.queue[s.head+1+int(i)]) || some
	}
	if some {
		s.backoff = 0
		s.detect()
		s.restart(now)
	}
	return true
}

// arrive notes that a segment has arrived, and reports whether that is new.
func (s *sender) arrive(now time.Duration, x *segment) bool {
	if x.acked {
		return false
	}
	x.acked = true
	if x.lost {
		x.lost = false
		s.lost--
	} else {
		s.flying--
	}
	if !x.again {
		s.measure(now - x.sent)
	}
	s.arrived = max(s.arrived, x.order)
	if x.order > s.recovery {
		s.room = min(s.room+s.growth(), window)
	}
	return true
}

// growth is by how much the window grows for a segment that arrived: by one until the first
// loss, then by one in a round trip.
func (s *sender) growth() float64 {
	if s.recovery == 0 {
		return 1
	}
	return 1 / s.room
}

// release forgets the first segments, which have arrived.
func (s *sender) release(n int) {
	for range n {
		x := s.queue[s.head]
		s.queue[s.head] = nil
		s.head++
		*x = segment{packet: x.packet[:dataLen]}
		s.free = append(s.free, x)
	}
	s.sent -= n
	s.first += uint32(n)
}

// detect finds the segments that are lost because later transmissions have arrived.
func (s *sender) detect() {
	for i := range s.sent {
		if x := s.queue[s.head+i]; !x.acked && !x.lost && x.order+reordering <= s.arrived {
			s.lose(x)
		}
	}
}

// lose notes a lost segment. The first loss of a round trip halves the window.
func (s *sender) lose(x *segment) {
	x.lost = true
	s.lost++
	s.flying--
	if x.order > s.recovery {
		s.recovery = s.order
		s.room = max(s.room/2, leastWindow)
	}
}

// expire repeats everything that is under way if no acknowledgement came in time.
func (s *sender) expire(now time.Duration) {
	if now < s.timer {
		return
	}
	for i := range s.sent {
		if x := s.queue[s.head+i]; !x.acked && !x.lost {
			s.lose(x)
		}
	}
	s.room = leastWindow
	s.backoff = min(s.backoff+1, 8)
	s.restart(now)
}

// restart sets the retransmission timer, for segments in flight or lost ones.
func (s *sender) restart(now time.Duration) {
	if s.timer = Never; s.flying+s.lost > 0 {
		s.timer = now + s.timeout()
	}
}

// measure takes a round trip (RFC 6298).
func (s *sender) measure(d time.Duration) {
	if s.smooth == 0 {
		s.smooth, s.deviation = max(d, 1), d/2
		return
	}
	s.deviation += ((s.smooth - d).Abs() - s.deviation) / 4
	s.smooth = max(1, s.smooth+(d-s.smooth)/8)
}

func (s *sender) timeout() time.Duration {
	d := firstTimeout
	if s.smooth > 0 {
		d = max(leastTimeout, s.smooth+4*s.deviation)
	}
	return min(d<<s.backoff, mostTimeout)
}
