package waiting

import (
	"runtime"
	"slices"
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

// A goroutine that became ready runs when the spin has lasted for a while, and not at each look.
func TestSpinYieldsSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if runtime.GOMAXPROCS(0) == 1 {
			t.Skip("with one processor it always yields")
		}
		s := Spin{For: 20 * firstYield, Every: 1}
		var at []time.Duration
		for s.More() {
			before := s.yielded
			if s.Yield(); s.yielded != before {
				at = append(at, s.yielded)
			}
			time.Sleep(time.Microsecond)
		}
		want := []time.Duration{firstYield, 2 * firstYield, 4 * firstYield, 8 * firstYield, 16 * firstYield}
		if !slices.Equal(at, want) {
			t.Errorf("yielded at %v, expected %v", at, want)
		}
	})
}

func TestPollingIsLongerWhileSleepsAreShort(t *testing.T) {
	const usual = 20 * time.Microsecond
	var a Adaptive
	expect := func(want time.Duration) {
		t.Helper()
		if s := a.Spin(usual, 1); s.For != want {
			t.Errorf("polls for %v, expected %v", s.For, want)
		}
	}
	expect(usual)
	for _, want := range []time.Duration{2 * usual, 4 * usual, longest * usual, longest * usual} {
		a.Slept(longest*usual-1, usual)
		expect(want)
	}
	a.Slept(longest*usual, usual)
	expect(usual)
}

func TestCallThatDoesNotPollNeverBegins(t *testing.T) {
	for _, usual := range []time.Duration{0, -1} {
		var a Adaptive
		a.Slept(0, 20*time.Microsecond)
		if s := a.Spin(usual, 1); s.More() {
			t.Errorf("for %v: it polls", usual)
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
