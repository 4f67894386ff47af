package adapter

import (
	"time"

	"softrdma/internal/adapter/schedule"
	"softrdma/internal/machine"
)

// sweepTime is the time between two sweeps. A flow that only datagrams used is closed after
// one to two of them: a peer that has gone would hold its socket otherwise.
const sweepTime = 5 * time.Second

// A sweeper closes the flows of a lane that datagrams have opened and use no more. It has a
// deadline only while there are such flows.
type sweeper struct {
	lane  *packetLane
	entry schedule.Entry
	at    time.Duration
}

var _ schedule.Task = (*sweeper)(nil)

func (s *sweeper) init(l *packetLane) {
	s.lane, s.at = l, machine.Never
	s.entry.Init(s)
}

// use notes that a datagram is sent on a flow.
func (s *sweeper) use(f *txFlow) {
	f.used = true
	if s.at == machine.Never {
		s.at = s.lane.dev.clock() + sweepTime
		s.lane.tasks.Set(&s.entry, s.at)
	}
}

// Next implements schedule.Task.
func (s *sweeper) Next(time.Duration) (int, bool) { return 0, false }

// Deadline implements schedule.Task.
func (s *sweeper) Deadline() time.Duration { return s.at }

// Expire implements schedule.Task.
func (s *sweeper) Expire(now time.Duration) {
	s.at = machine.Never
	for _, f := range s.lane.flows.open {
		switch {
		case f.uses > 0:
		case f.used:
			f.used, s.at = false, now+sweepTime
		default:
			s.lane.flows.close(f)
		}
	}
}
