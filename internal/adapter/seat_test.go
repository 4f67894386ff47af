package adapter

import (
	"testing"
	"time"
)

const (
	aloneYield  = 400 * time.Nanosecond
	takenYield  = 25 * time.Microsecond
	lookAgain   = 50 * time.Microsecond
	oneThread   = 11
	otherThread = 12
)

// yields has a thread yield n times, and returns how many of them came before
// it was to move: n where it was not.
func (s *seat) yields(n, thread int, took time.Duration, now *time.Duration) int {
	for i := range n {
		*now += lookAgain
		if s.yielded(thread, took, *now) {
			return i
		}
	}
	return n
}

func TestWhoHasAProcessorAloneStays(t *testing.T) {
	var s seat
	now := time.Second
	if n := s.yields(1000, oneThread, aloneYield, &now); n != 1000 {
		t.Errorf("moved after %d yields in which nobody else ran", n)
	}
	// Now and then somebody is there for a moment: the lane's goroutine, a timer's.
	for range 100 {
		if s.yields(residentPatience-1, oneThread, takenYield, &now) != residentPatience-1 || s.yields(1, oneThread, aloneYield, &now) != 1 {
			t.Fatal("moved for somebody who left")
		}
	}
}

// What a yield takes depends on the machine: an emulated one is slow.
func TestSlowSystemCallsAreNoCompany(t *testing.T) {
	var s seat
	now := time.Second
	if n := s.yields(1000, oneThread, 10*sharedYield, &now); n != 1000 {
		t.Errorf("moved after %d yields that took as long as all of them", n)
	}
}

func TestWhoComesMovesFirst(t *testing.T) {
	for range 20 {
		var s seat
		now := time.Second
		s.yields(1, oneThread, aloneYield, &now)
		if n := s.yields(100, oneThread, takenYield, &now); n < residentPatience-1 || n >= 2*residentPatience {
			t.Errorf("who was there first moved after %d yields, expected %d to %d", n, residentPatience-1, 2*residentPatience-1)
		}
		now += time.Second
		s.yields(1, oneThread, aloneYield, &now)
		if n := s.yields(100, otherThread, takenYield, &now); n != newcomerPatience-1 {
			t.Errorf("the thread that came moved after %d yields, expected %d", n, newcomerPatience-1)
		}
	}
}

// Where all processors are taken moving does not help, and costs.
func TestMovingInVainBecomesRare(t *testing.T) {
	var s seat
	now := time.Second
	s.yields(1, oneThread, aloneYield, &now)
	moves, end := 0, now+10*time.Second
	for now < end {
		if s.yields(1, oneThread, takenYield, &now) == 0 {
			moves++
		}
	}
	if least, most := int(10*time.Second/maxSeatWait)/2, int(10*time.Second/maxSeatWait)+10; moves < least || moves > most {
		t.Errorf("moved %d times in 10 s, expected %d to %d", moves, least, most)
	}
	now += 16*maxSeatWait + time.Millisecond
	s.yields(1, oneThread, aloneYield, &now)
	began := now
	for range 2 {
		s.yields(1000, oneThread, takenYield, &now)
	}
	if d := now - began; d > 4*time.Millisecond {
		t.Errorf("after a while alone two moves took %v, expected milliseconds", d)
	}
}
