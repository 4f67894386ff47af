package machine

import (
	"time"

	"softrdma/internal/reason"
)

// SilentProbes is the minimum number of unanswered probe intervals before a
// connection fails because its peer was silent for Port.PeerTimeout.
const SilentProbes = 3

// ProbeInterval is how long the peer may be silent before it is probed, and the time
// between two probes. It is 0 where neither PeerProbe nor PeerTimeout is set.
func (p *Port) ProbeInterval() time.Duration {
	if p.PeerProbe > 0 {
		return p.PeerProbe
	}
	return p.PeerTimeout / (SilentProbes + 1)
}

// Silent reports whether a peer that was silent for a time and left so many probe
// intervals without an answer is given up.
func (p *Port) Silent(silence time.Duration, asked uint8) bool {
	return asked >= SilentProbes && silence >= p.PeerTimeout
}

// SilentDetail is why a connection fails whose peer was silent for a time.
func (p *Port) SilentDetail(silence time.Duration) reason.Detail {
	return reason.Detail{Reason: reason.PeerSilent, Expected: uint64(p.PeerTimeout.Milliseconds()), Found: uint64(silence.Milliseconds())}
}
