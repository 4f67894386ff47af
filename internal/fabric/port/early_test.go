package port

import (
	"testing"
	"time"

	"softrdma/internal/wire/ib"
)

// Packets that leave early leave in rows, and the link carries no more of them in a longer time.
func TestPacketsThatLeaveEarlyKeepTheRate(t *testing.T) {
	const count, size = 1000, 1000
	run := func(early time.Duration) (end time.Duration, rows int) {
		p, drops := newPort(Config{VLs: 1, Refresh: Never, Early: early})
		last := time.Duration(-1)
		for left := 0; left < count; {
			for p.Queued(0) < 8 {
				queued(p, 0, size)
			}
			grantAll(p)
			frame := p.Next(end)
			if frame == nil {
				at := p.env.Schedule.Deadline()
				if at <= end || at == Never {
					t.Fatalf("at %v: deadline %v", end, at)
				}
				end = at
				continue
			}
			if len(frame) > ib.FlowControlLen {
				left++
				if end != last {
					rows, last = rows+1, end
				}
			}
		}
		if len(*drops) > 0 {
			t.Error(*drops)
		}
		return end, rows
	}
	exact, single := run(0)
	const early = 2 * time.Microsecond
	end, rows := run(early)
	if single != count {
		t.Errorf("%d packets left in %d rows, expected each alone", count, single)
	}
	if end > exact || end < exact-early-time.Microsecond {
		t.Errorf("the last of %d packets left after %v, expected up to %v before %v", count, end, early, exact)
	}
	if rows > count-5 {
		t.Errorf("%d packets left early in %d rows", count, rows)
	}
}

// The place of a packet that leaves early is free at once: nothing waits for its last byte.
func TestPacketThatLeavesEarlyFreesItsPlace(t *testing.T) {
	p, _ := newPort(Config{VLs: 1, Refresh: Never, Early: time.Millisecond})
	queued(p, 0, 1000)
	grantAll(p)
	for p.Next(0) != nil {
	}
	if p.sending != nil || p.env.Schedule.Deadline() != Never {
		t.Errorf("deadline %v, a packet is still sent", p.env.Schedule.Deadline())
	}
}
