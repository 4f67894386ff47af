package trace

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"softrdma/internal/reason"
)

// counting counts events by kind.
type counting struct {
	n    [Completed + 1]atomic.Uint64
	last atomic.Pointer[Event]
}

func (c *counting) Trace(e *Event) {
	c.n[e.Kind].Add(1)
	x := *e
	c.last.Store(&x)
}

func TestStreamWithoutListenersIsOff(t *testing.T) {
	var s Stream
	if s.On() {
		t.Error("a new stream is on")
	}
	s.Emit(&Event{}) // no listener: no panic
	s.Refuse(1, reason.Detail{Reason: reason.NoReceive})
	if n := s.Counter(reason.NoReceive); n != 1 {
		t.Errorf("counted %d refusals, expected 1 without listeners too", n)
	}
}

func TestStreamEveryListenerGetsEveryEvent(t *testing.T) {
	var s Stream
	var a, b counting
	detachA, detachB := s.Attach(&a), s.Attach(&b)
	if !s.On() {
		t.Error("off with two listeners")
	}
	for k := range Completed + 1 {
		s.Emit(&Event{Kind: k})
	}
	detachA()
	s.Emit(&Event{Kind: Sent})
	if !s.On() {
		t.Error("off with one listener left")
	}
	detachB()
	s.Emit(&Event{Kind: Sent})
	if s.On() {
		t.Error("on when the last listener was detached")
	}
	for k := range Completed + 1 {
		wantB := uint64(1)
		if k == Sent {
			wantB = 2
		}
		if a.n[k].Load() != 1 || b.n[k].Load() != wantB {
			t.Errorf("kind %d: %d and %d events, expected 1 and %d", k, a.n[k].Load(), b.n[k].Load(), wantB)
		}
	}
}

func TestStreamDetachTwiceLeavesOthers(t *testing.T) {
	var s Stream
	var a, b counting
	detach := s.Attach(&a)
	s.Attach(&b)
	detach()
	detach()
	s.Emit(&Event{Kind: Sent})
	if a.n[Sent].Load() != 0 || b.n[Sent].Load() != 1 {
		t.Errorf("%d and %d events, expected 0 and 1", a.n[Sent].Load(), b.n[Sent].Load())
	}
}

// Attaching the same listener twice and detaching once keeps one attachment.
func TestStreamSameListenerTwiceDetachesOnce(t *testing.T) {
	var s Stream
	var a counting
	first, second := s.Attach(&a), s.Attach(&a)
	first()
	first()
	s.Emit(&Event{Kind: Sent})
	if n := a.n[Sent].Load(); n != 1 {
		t.Errorf("%d events, expected 1: the second attachment stays", n)
	}
	second()
	if s.On() {
		t.Error("on with both detached")
	}
}

// slice is a listener whose type cannot be compared.
type slice []int

func (slice) Trace(*Event) {}

func TestStreamListenerOfUncomparableTypeDetaches(t *testing.T) {
	var s Stream
	detach := s.Attach(slice{1})
	detach()
	if s.On() {
		t.Error("on when the listener was detached")
	}
}

func TestStreamRefusalHasQPNAndDetail(t *testing.T) {
	var s Stream
	var a counting
	s.Attach(&a)
	before := time.Now()
	d := reason.Detail{Reason: reason.KeyBounds, Expected: 3, Found: 4}
	s.Refuse(7, d)
	e := a.last.Load()
	if e == nil || e.Kind != Refused || e.QPN != 7 || e.Detail != d || e.Time.Before(before) {
		t.Errorf("event %+v, expected QP 7 with %v", e, d)
	}
}

func TestStreamCountersAreByReason(t *testing.T) {
	var s Stream
	for r := range reason.Count {
		for range r % 5 {
			s.Refuse(0, reason.Detail{Reason: r})
		}
	}
	for r := range reason.Count {
		if n := s.Counter(r); n != uint64(r%5) {
			t.Errorf("%v counted %d times, expected %d", r, n, r%5)
		}
	}
	s.Refuse(0, reason.Detail{Reason: reason.Count})
	s.Refuse(0, reason.Detail{Reason: ^reason.Reason(0)})
	if s.Counter(reason.Count) != 0 || s.Counter(^reason.Reason(0)) != 0 {
		t.Error("reasons beyond the table are counted")
	}
}

// Listeners attach and detach while events are emitted. A permanent listener gets
// every event, and a detached one gets none after detach and the emitters returned.
func TestStreamAttachDetachRaces(t *testing.T) {
	const emitters, events, comers = 2, 2000, 2
	var s Stream
	var stays counting
	s.Attach(&stays)
	var wg sync.WaitGroup
	for range emitters {
		wg.Go(func() {
			for range events {
				if s.On() {
					s.Emit(&Event{Kind: Sent})
				}
				s.Refuse(1, reason.Detail{Reason: reason.SequenceAhead})
			}
		})
	}
	for range comers {
		wg.Go(func() {
			for range 500 {
				var c counting
				detach := s.Attach(&c)
				detach()
			}
		})
	}
	wg.Wait()
	if n := stays.n[Sent].Load(); n != emitters*events {
		t.Errorf("%d events reached the permanent listener, expected %d", n, emitters*events)
	}
	if n := stays.n[Refused].Load(); n != emitters*events || n != s.Counter(reason.SequenceAhead) {
		t.Errorf("%d refusals traced, %d counted, expected %d", n, s.Counter(reason.SequenceAhead), emitters*events)
	}
	if l := s.listeners.Load(); l == nil || len(*l) != 1 {
		t.Error("a detached listener is still attached")
	}
}

func TestStreamPathAllocatesNothing(t *testing.T) {
	var s Stream
	d := reason.Detail{Reason: reason.NoReceive}
	if n := testing.AllocsPerRun(100, func() { s.Refuse(1, d) }); n != 0 {
		t.Errorf("%v allocations per refusal without listeners, expected 0", n)
	}
	if n := testing.AllocsPerRun(100, func() {
		if s.On() {
			t.Error("on")
		}
	}); n != 0 {
		t.Errorf("%v allocations per event, expected 0", n)
	}
}

func BenchmarkStreamOff(b *testing.B) {
	var s Stream
	b.ReportAllocs()
	for b.Loop() {
		if s.On() {
			b.Fatal("on")
		}
	}
}

func BenchmarkRefuseWithoutListener(b *testing.B) {
	var s Stream
	d := reason.Detail{Reason: reason.NoReceive}
	b.ReportAllocs()
	for b.Loop() {
		s.Refuse(1, d)
	}
}
