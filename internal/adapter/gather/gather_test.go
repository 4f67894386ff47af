package gather

import "testing"

func TestDoorbellsOfAStreamWait(t *testing.T) {
	var c Counts
	for n := range after {
		if c.InStream() {
			t.Fatalf("doorbell %d without a poll belongs to a stream", n+1)
		}
	}
	if !c.InStream() {
		t.Error("the doorbell behind them does not")
	}
	c.PolledAgain()
	if !c.InStream() {
		t.Error("the first doorbell after a poll behind a stream does not belong to one")
	}
	c.PolledAgain()
	if c.InStream() {
		t.Error("the first doorbell behind a single one belongs to a stream")
	}
}

func TestNumberOfWaitingDoorbellsIsBounded(t *testing.T) {
	var c Counts
	for n := 1; !c.Full(); n++ {
		if left, first := c.Wait(); left != atMost-1-n || first != (n == 1) {
			t.Fatalf("doorbell %d: %d more may wait, first %v", n, left, first)
		}
	}
	if left, _ := (&Counts{waiting: c.waiting - 1}).Wait(); left != 0 {
		t.Errorf("%d more may wait", left)
	}
	if c.Sent(); c.Full() {
		t.Error("full after all were sent")
	}
}
