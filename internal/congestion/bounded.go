package congestion

import "time"

// bounded keeps what fits into the path in flight: the largest rate that was delivered in a round
// trip, times the smallest round trip. IRN (SIGCOMM 2018) sets this bound once and for all, from the
// rate of the adapter and the longest path, and has no other control; losses do not count. A process
// knows neither: it doubles what is in flight with each round trip until the rate stops growing, and
// takes the bound then. While no round trip shows a queue it continues by a packet in each, for when
// other flows have ended.
type bounded struct {
	size   float64 // bytes
	limits Limits
	rate   float64 // bytes per second: the largest of the last rounds
	newer  float64 // and of those since turn
	turn   uint8   // rounds until rate forgets the older ones

	end   time.Duration // of the round
	began time.Duration
	got   int // bytes in it
	full  uint8
	least time.Duration // smallest round trip of the round
}

const (
	boundedGrowth = 1.25 // of the rate in a round: less means that the path is full
	boundedRounds = 3    // in a row
	boundedTurn   = 16   // rounds after which half of the measurements are forgotten
)

func newBounded(l Limits) *bounded {
	return &bounded{size: float64(min(initialDelay*l.Packet, l.Window)), limits: l}
}

// Sent implements Control.
func (*bounded) Sent(time.Duration, int, int64) {}

// Acked implements Control.
func (b *bounded) Acked(now time.Duration, n int, sample time.Duration, rtt *RTT) {
	b.got += n
	if sample > 0 && (b.least == 0 || sample < b.least) {
		b.least = sample
	}
	if b.full < boundedRounds {
		b.set(b.size + float64(n))
	}
	if now < b.end || !rtt.Known() {
		return
	}
	if b.end > 0 {
		b.round(now, rtt)
	}
	b.end, b.began, b.got, b.least = now+rtt.Smoothed(), now, 0, 0
}

// round takes the rate of a round, and the bound that follows from it.
func (b *bounded) round(now time.Duration, rtt *RTT) {
	rate := float64(b.got) / (now - b.began).Seconds()
	if rate < b.rate*boundedGrowth {
		b.full = min(b.full+1, boundedRounds)
	} else if b.full < boundedRounds {
		b.full = 0
	}
	b.newer = max(b.newer, rate)
	if b.turn++; b.turn == boundedTurn {
		b.rate, b.newer, b.turn = b.newer, 0, 0
	}
	b.rate = max(b.rate, rate)
	if b.full < boundedRounds {
		return
	}
	packet := float64(b.limits.Packet)
	bound := b.rate*rtt.Least().Seconds() + packet
	if b.least > 0 && b.least <= rtt.Least()+rtt.Least()/8 {
		bound = max(bound, b.size+packet)
	}
	b.set(bound)
}

func (b *bounded) set(v float64) {
	b.size = min(max(v, float64(leastPackets*b.limits.Packet)), float64(b.limits.Window))
}

// Lost implements Control.
func (*bounded) Lost(time.Duration, int, *RTT) {}

// Timeout implements Control.
func (*bounded) Timeout(time.Duration) {}

// Notified implements Control.
func (*bounded) Notified(time.Duration, *RTT) {}

// Window implements Control.
func (b *bounded) Window() int { return int(b.size) }

// Ready implements Control.
func (*bounded) Ready(time.Duration) time.Duration { return 0 }

// Rate implements Control.
func (*bounded) Rate() float64 { return 0 }

// Paces implements Control.
func (*bounded) Paces() bool { return false }
