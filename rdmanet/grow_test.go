package rdmanet

import (
	"testing"

	"softrdma/rdmanet/internal/rsocket"
)

// A message is timed until its own completion. One that sends another part of the same span completes before.
func TestOneMessageOfASpanIsTimed(t *testing.T) {
	e := &endpoint{}
	e.out = &ring{rsocket.NewSendBuffer(64<<10, spans), &area{}}
	e.out.Take(48 << 10) // which makes the buffer busy
	_, _, id := e.out.Take(8 << 10)
	e.out.Hold(id)
	e.out.Hold(id)
	first, second := uint64(workData)|uint64(id)<<8, uint64(workData)|uint64(id)<<8
	if !e.timesData() || e.timesData() {
		t.Fatal("expected one message to be timed")
	}
	second |= timedData
	e.sentSpan(first)
	if !e.leaving.Timing() {
		t.Error("the timing ended with another message")
	}
	e.sentSpan(second)
	if e.leaving.Timing() {
		t.Error("the timing has not ended")
	}
}
