package adapter

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"softrdma/internal/qp"
	"softrdma/internal/queue"
)

// heldLane returns an end whose lane another goroutine holds while Go runs one goroutine at a
// time, and a function that makes a call again and again and counts how often it lets others run.
func heldLane(t *testing.T) (e *end, yields func(calls int, call func()) int) {
	procs := runtime.GOMAXPROCS(1)
	e = newEnd(t, "192.0.2.1:4791", Config{Manual: true, Clock: func() time.Duration { return 1 }}, qp.UD, 64)
	e.dev.lanes[0].Lock()
	t.Cleanup(func() {
		e.dev.lanes[0].Unlock()
		runtime.GOMAXPROCS(procs)
	})
	return e, func(calls int, call func()) (yielded int) {
		for range calls {
			var ran atomic.Bool
			go func() { ran.Store(true) }()
			if call(); ran.Load() {
				yielded++
			}
		}
		return yielded
	}
}

// A consumer that sleeps until an event takes what came, polls the empty queue once, and sleeps.
// If it yielded its processor then, it would wait for the time slices of all other threads there.
func TestPollOncePerCompletionKeepsTheProcessor(t *testing.T) {
	e, yields := heldLane(t)
	const events = 1000
	yielded := yields(events, func() {
		e.cq.Push(&queue.CQE{})
		e.cq.Ring().Release(e.cq.Ring().Producer()) // the consumer takes it
		e.cq.Progress(true)
	})
	if yielded > events/2 { // Go's scheduler may take the processor at any time
		t.Errorf("%d of %d polls yielded", yielded, events)
	}
}

// A consumer that polls on may keep the lane's holder from running.
func TestPollsInALoopYieldToTheHolder(t *testing.T) {
	e, yields := heldLane(t)
	const polls = 1000
	yielded := yields(polls, func() { e.cq.Progress(true) })
	if yielded < polls/2 { // Go's scheduler may continue with the one that yielded
		t.Errorf("%d of %d polls of an empty queue yielded", yielded, polls)
	}
}

// A thread that waits for an event polls the device for a moment, and then sleeps.
func TestPollsBeforeASleepKeepTheProcessor(t *testing.T) {
	e, yields := heldLane(t)
	const polls = 1000
	yielded := yields(polls, e.dev.Poll)
	if yielded > polls/2 { // Go's scheduler may take the processor at any time
		t.Errorf("%d of %d polls yielded", yielded, polls)
	}
}
