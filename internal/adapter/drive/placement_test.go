package drive

import (
	"testing"
	"time"
)

const (
	exclusiveYield = 400 * time.Nanosecond
	takenYield     = 25 * time.Microsecond
	lookAgain      = 50 * time.Microsecond
	oneThread      = 11
	otherThread    = 12
)

// yields lets a thread yield up to n times, and returns the number of yields before the
// one that asked it to move, or n if none did.
func (p *placement) yields(n, thread int, took time.Duration, now *time.Duration) int {
	for i := range n {
		*now += lookAgain
		if p.yielded(thread, took, *now) {
			return i
		}
	}
	return n
}

func TestPollerAloneOnItsProcessorStays(t *testing.T) {
	var p placement
	now := time.Second
	if n := p.yields(1000, oneThread, exclusiveYield, &now); n != 1000 {
		t.Errorf("moved after %d yields in which no other thread ran", n)
	}
	// Another thread runs for a moment: the worker's or a timer's.
	for range 100 {
		if p.yields(residentLimit-1, oneThread, takenYield, &now) != residentLimit-1 || p.yields(1, oneThread, exclusiveYield, &now) != 1 {
			t.Fatal("moved for a thread that left")
		}
	}
}

// A poller that yields in each round trip lets everything that woke meanwhile run. One
// that shares its processor with its peer must yield early, or both wait.
func TestPollerYieldsEarlyOnlyOnASharedProcessor(t *testing.T) {
	d := &Driver{}
	now := time.Second
	polls := func() int {
		d.emptyPolls = 0
		for d.emptyPolls++; !d.yieldDue(); {
			d.emptyPolls++
		}
		return int(d.emptyPolls) + 1
	}
	for _, c := range []struct {
		what   string
		took   time.Duration
		single bool
		polls  int
	}{
		{"alone", exclusiveYield, false, yieldExclusiveAfter},
		{"with another thread", takenYield, false, yieldAfter},
		{"alone again", exclusiveYield, false, yieldExclusiveAfter},
		{"alone, where Go runs one goroutine at a time", exclusiveYield, true, yieldAfter},
		{"on a slow machine", sharedYield, false, yieldAfter},
	} {
		d.single = c.single
		d.placement.yielded(oneThread, c.took, now)
		if n := polls(); n != c.polls {
			t.Errorf("%s: yielded after %d empty polls, expected %d", c.what, n, c.polls)
		}
	}
	if d := new(Driver); d.placement.exclusive.Load() {
		t.Error("a new poller assumes that no other thread runs")
	}
}

// The duration of a yield depends on the machine: on an emulated one it is long.
func TestSlowYieldsAreNotSharedOnes(t *testing.T) {
	var p placement
	now := time.Second
	if n := p.yields(1000, oneThread, 10*sharedYield, &now); n != 1000 {
		t.Errorf("moved after %d yields that took as long as all of them", n)
	}
}

func TestNewcomerMovesBeforeResident(t *testing.T) {
	for range 20 {
		var p placement
		now := time.Second
		p.yields(1, oneThread, exclusiveYield, &now)
		if n := p.yields(100, oneThread, takenYield, &now); n < residentLimit-1 || n >= 2*residentLimit {
			t.Errorf("the thread that was there first moved after %d yields, expected %d to %d", n, residentLimit-1, 2*residentLimit-1)
		}
		now += time.Second
		p.yields(1, oneThread, exclusiveYield, &now)
		if n := p.yields(100, otherThread, takenYield, &now); n != newcomerLimit-1 {
			t.Errorf("the thread that came moved after %d yields, expected %d", n, newcomerLimit-1)
		}
	}
}

// If all processors are busy, moving does not help and costs time.
func TestMovesInVainBecomeRare(t *testing.T) {
	var p placement
	now := time.Second
	p.yields(1, oneThread, exclusiveYield, &now)
	moves, end := 0, now+10*time.Second
	for now < end {
		if p.yields(1, oneThread, takenYield, &now) == 0 {
			moves++
		}
	}
	if least, most := int(10*time.Second/maxMoveWait)/2, int(10*time.Second/maxMoveWait)+10; moves < least || moves > most {
		t.Errorf("moved %d times in 10 s, expected %d to %d", moves, least, most)
	}
	now += 16*maxMoveWait + time.Millisecond
	p.yields(1, oneThread, exclusiveYield, &now)
	began := now
	for range 2 {
		p.yields(1000, oneThread, takenYield, &now)
	}
	if d := now - began; d > 4*time.Millisecond {
		t.Errorf("after a while alone two moves took %v, expected milliseconds", d)
	}
}
