package relook

import (
	"testing"
	"time"
)

func TestLookDoublesItsIntervalUntilSomethingIsFound(t *testing.T) {
	const ms = time.Millisecond
	l := Begin(5 * ms)
	if l.At != 6*ms {
		t.Errorf("first look at %v, expected 6ms", l.At)
	}
	for _, c := range []struct {
		found bool
		want  time.Duration
	}{{false, 2 * ms}, {false, 4 * ms}, {true, ms}, {false, 2 * ms}, {false, 4 * ms}, {false, 8 * ms}, {false, 16 * ms}, {false, 32 * ms}, {false, 64 * ms}, {false, 64 * ms}, {true, ms}} {
		now := l.At
		if l.Next(now, c.found); l.At-now != c.want {
			t.Errorf("found %v: next look after %v, expected %v", c.found, l.At-now, c.want)
		}
	}
}
