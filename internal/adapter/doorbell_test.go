package adapter

import "testing"

func TestDoorbellsOfAStreamWait(t *testing.T) {
	var c doorbells
	for n := range gatherAfter {
		if c.inStream() {
			t.Fatalf("doorbell %d without a poll belongs to a stream", n+1)
		}
	}
	if !c.inStream() {
		t.Error("the doorbell behind them does not")
	}
	c.polledAgain()
	if !c.inStream() {
		t.Error("the first doorbell after a poll behind a stream does not belong to one")
	}
	c.polledAgain()
	if c.inStream() {
		t.Error("the first doorbell behind a single one belongs to a stream")
	}
}

func TestNumberOfWaitingDoorbellsIsBounded(t *testing.T) {
	var c doorbells
	for n := 1; !c.full(); n++ {
		if left, first := c.wait(); left != gatherLimit-1-n || first != (n == 1) {
			t.Fatalf("doorbell %d: %d more may wait, first %v", n, left, first)
		}
	}
	if left, _ := (&doorbells{waiting: c.waiting - 1}).wait(); left != 0 {
		t.Errorf("%d more may wait", left)
	}
	if c.sent(); c.full() {
		t.Error("full after all were sent")
	}
}
