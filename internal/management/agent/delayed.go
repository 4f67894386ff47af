package agent

import (
	"time"

	"softrdma/internal/management/hardware"
)

// answerDelay is the time in which the answer to a Set leaves the port. A MAD takes 1.2 µs
// on the slowest link.
const answerDelay = 20 * time.Microsecond

// A delayedCommand takes a link down by which an answer is leaving.
type delayedCommand struct {
	port    int
	command hardware.LinkCommand
	due     time.Duration
}

// takeDown carries out a command that takes a link down. If the answer leaves by that link
// it goes first: managers take a link down to make it train again with another MTU, and
// repeat what is not answered.
func (a *Agent) takeDown(now time.Duration, in *Arrival, n int, c hardware.LinkCommand) bool {
	if in.Port != n {
		return a.node.SetLink(n, c)
	}
	a.delayed, a.quiet = append(a.delayed, delayedCommand{n, c, now + answerDelay}), false
	return true
}

// Expire carries out the commands whose answers have left, and starts and ends samples.
func (a *Agent) Expire(now time.Duration) {
	a.expireSample(now)
	late := a.delayed
	a.delayed = nil
	for _, d := range late {
		if d.due > now {
			a.delayed, a.quiet = append(a.delayed, d), false
		} else {
			a.node.SetLink(d.port, d.command)
		}
	}
}
