package wakeup

import "testing"

func ready(a *Alarm) bool { return len(a.Channel()) > 0 }

func TestSignalsCountOnceUntilReset(t *testing.T) {
	a := New()
	defer a.Close()
	if ready(a) {
		t.Error("a new alarm is ready")
	}
	a.Reset() // of nothing
	for range 3 {
		a.Signal()
	}
	if !ready(a) {
		t.Error("not ready after Signal")
	}
	a.Reset()
	if ready(a) {
		t.Error("ready after Reset")
	}
	a.Signal()
	<-a.Channel() // the program has seen it
	a.Reset()
	if ready(a) {
		t.Error("ready after the value was taken")
	}
}

func TestTokenDoesNotBlock(t *testing.T) {
	c := make(chan struct{}, 1)
	Token(c)
	Token(c)
	if len(c) != 1 {
		t.Errorf("%d values, expected 1", len(c))
	}
}
