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

// takeDown executes a command that takes a link down. If the answer leaves by that link
// it goes first: managers take a link down to make it train again with another MTU, and
// repeat what is not answered.
func (a *subnetAgent) takeDown(now time.Duration, in *Arrival, n int, c hardware.LinkCommand) bool {
	if in.Port != n {
		return a.node.SetLink(n, c)
	}
	a.delayed = append(a.delayed, delayedCommand{n, c, now + answerDelay})
	return true
}

// deadline is when the answer to a command has left.
func (a *subnetAgent) deadline() time.Duration {
	first := Never
	for i := range a.delayed {
		first = min(first, a.delayed[i].due)
	}
	return first
}

// expire executes the commands whose answers have left.
func (a *subnetAgent) expire(now time.Duration) {
	late := a.delayed
	a.delayed = nil
	for _, d := range late {
		if d.due > now {
			a.delayed = append(a.delayed, d)
		} else {
			a.node.SetLink(d.port, d.command)
		}
	}
}
