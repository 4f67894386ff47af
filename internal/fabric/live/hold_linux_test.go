package live

import (
	"testing"

	"softrdma/internal/fabric/attach"
)

// A program that is slower than its peers fills its ring again and again, within one turn of the
// loop as well.
func TestBlockedProgramIsListedOnce(t *testing.T) {
	f := new(Fabric)
	a := &attachment{fabric: f, share: attach.Share{Of: 2}}
	for now := range stopTime / 2 {
		if !a.hold(now, 3) {
			t.Fatalf("dropped after %v", now)
		}
		if a.full = 0; now == 99 { // there was room
			break
		}
	}
	if n := len(f.todo.blocked); n != 1 {
		t.Errorf("listed %d times", n)
	}
}
