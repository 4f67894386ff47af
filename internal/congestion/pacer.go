package congestion

import "time"

// A pacer spreads packets over time. A process has no fine timers, so packets leave in quanta:
// a flow that has to wait does so until it may send one.
type pacer struct {
	rate float64       // bytes per second; 0 means no pace
	free time.Duration // when all that was sent has left at the rate
}

// took returns the time of n bytes at the rate.
func (p *pacer) took(n int) time.Duration {
	return time.Duration(float64(n) / p.rate * float64(time.Second))
}

// pass counts n bytes that leave now. After a pause as much as burst takes may leave at once.
func (p *pacer) pass(now time.Duration, n int, burst time.Duration) {
	p.free = max(p.free, now-burst) + p.took(n)
}

// ready returns when the next packet may leave, if a flow that waits is to send for the time of
// a quantum, which includes that packet.
func (p *pacer) ready(now, quantum time.Duration, packet int) time.Duration {
	if p.rate == 0 || p.free <= now {
		return now
	}
	return p.free + quantum - p.took(packet)
}

// Rate implements Control.
func (p *pacer) Rate() float64 { return p.rate }
