package waiting

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestSpinEndsAfterItsTime(t *testing.T) {
	for _, every := range []int{1, 16} {
		synctest.Test(t, func(t *testing.T) {
			s := Spin{For: 50 * time.Microsecond, Every: every}
			looks := 0
			for ; s.More(); looks++ {
				time.Sleep(time.Microsecond)
			}
			// The clock is read at every look of that number, and first at the first of these.
			want := every - 1 + (50+every-1)/every*every
			if looks != want {
				t.Errorf("clock read every %d looks: %d looks, expected %d", every, looks, want)
			}
		})
	}
}

func TestSpinWithoutTimeDoesNotPoll(t *testing.T) {
	for _, d := range []time.Duration{0, -1} {
		s := Spin{For: d, Every: 1}
		if s.More() {
			t.Errorf("for %v: it polls", d)
		}
	}
}

func TestSpinDoesNotAllocate(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() {
		for s := (Spin{For: time.Nanosecond, Every: 2}); s.More(); {
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestTurnIsOneCallsAtATime(t *testing.T) {
	var turn Turn
	if !turn.Take() || turn.Take() {
		t.Error("expected that only the first call takes the turn")
	}
	turn.Give()
	if !turn.Take() {
		t.Error("expected that the turn is free after it was given back")
	}
}
