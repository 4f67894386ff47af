package iwarp

import (
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/wire/iwarp"
)

// wakeupTimes are the times between empty WRITEs that an initiator sends to its responder
// after the set-up. An empty WRITE has no effect.
//
// As a responder, Linux's siw changes from set-up to operation after it has sent its reply. It
// does not notice data that arrives in between, such as the first FPDUs, until more arrives: a
// client that waits for an answer would wait forever. Data sent by siw does not show that it
// has received anything.
var wakeupTimes = [...]time.Duration{2 * time.Millisecond, 20 * time.Millisecond, 200 * time.Millisecond, 2 * time.Second}

// wakeUp sends the next empty WRITE.
func (s *Stream) wakeUp(now time.Duration) {
	s.q.req.ready = iwarp.RTRWrite
	s.deadline = machine.Never
	if s.wakeups++; s.wakeups < len(wakeupTimes) {
		s.deadline = now + wakeupTimes[s.wakeups]
	}
}
