package iwarp

import (
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/wire/iwarp"
)

// nudges are how long after each other an initiator sends its responder a WRITE of
// no bytes, which has no effect but to come.
//
// Linux's siw as a responder turns from set-up to operation after it has sent its
// reply. What comes in between, which the first FPDUs can, it does not see until
// something else comes: a client that waits for an answer then waits for ever. What
// it sends by itself does not tell that it has seen anything.
var nudges = [...]time.Duration{2 * time.Millisecond, 20 * time.Millisecond, 200 * time.Millisecond, 2 * time.Second}

// initiator tells, from the peer's frame on, which side of the set-up was taken.
func (s *Stream) initiator() bool { return s.request.head.Reply }

// nudge sends the next nudge. What is under way does as well.
func (s *Stream) nudge(now time.Duration) {
	s.q.req.ready = iwarp.RTRWrite
	s.deadline = machine.Never
	if s.nudged++; s.nudged < len(nudges) {
		s.deadline = now + nudges[s.nudged]
	}
}
