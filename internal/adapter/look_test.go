package adapter

import (
	"testing"
	"time"
)

func TestLookDoublesItsIntervalUntilSomethingIsFound(t *testing.T) {
	const ms = time.Millisecond
	l := newLook(5 * ms)
	if l.at != 6*ms {
		t.Errorf("first look at %v, expected 6ms", l.at)
	}
	for _, c := range []struct {
		found bool
		want  time.Duration
	}{{false, 2 * ms}, {false, 4 * ms}, {true, ms}, {false, 2 * ms}, {false, 4 * ms}, {false, 8 * ms}, {false, 16 * ms}, {false, 32 * ms}, {false, 64 * ms}, {false, 64 * ms}, {true, ms}} {
		now := l.at
		if l.next(now, c.found); l.at-now != c.want {
			t.Errorf("found %v: next look after %v, expected %v", c.found, l.at-now, c.want)
		}
	}
}
