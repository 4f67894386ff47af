package drive

import (
	"testing"
	"time"
)

func TestTurnIsDueOncePerPeriod(t *testing.T) {
	var turns turns
	due := 0
	for now := time.Duration(0); now < 10*turnPeriod; now += turnPeriod / 8 {
		if turns.due(now) {
			due++
		}
	}
	if due != 9 {
		t.Errorf("expected 9 turns in ten periods that begin with one, found %d", due)
	}
	if !turns.due(time.Hour) || turns.due(time.Hour+turnPeriod-1) || !turns.due(time.Hour+turnPeriod) {
		t.Error("after a long sleep a turn is due at once, and then after a period")
	}
}
