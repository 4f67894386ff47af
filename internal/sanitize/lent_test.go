package sanitize

import (
	"testing"

	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
)

func (r *rig) expectNothing(t *testing.T) {
	t.Helper()
	for _, f := range r.found {
		t.Error(f)
	}
}

// What the device writes is no mistake, also if it writes to a buffer that was posted twice.
func TestSanitizerBufferOfTheDeviceIsNoMistake(t *testing.T) {
	r := newRig(t, "all,-RIGHTS_UNUSED")
	for range 7 {
		r.receive(r.mr.Key)
	}
	r.post(queue.Read, queue.Signaled, r.mr.Key)
	for n := range 7 {
		r.arrive(t, byte(n+1))
	}
	r.write(t, 0x1000, 99) // the answer of the READ
	r.complete(queue.Success)
	r.buffer[1]++ // belongs to the program
	r.receive(r.mr.Key)
	r.write(t, 0x1000, 100) // a WRITE of the peer
	r.arrive(t, 101)
	r.expectNothing(t)
	if n := len(r.lent.spans); n > 0 {
		t.Errorf("%d parts are lent", n)
	}
}

// A receive that is flushed, or a queue that was reset, gives its buffer back at some time before the program
// can have polled.
func TestSanitizerBufferOfAnEndedQueueBelongsToTheProgram(t *testing.T) {
	for name, end := range map[string]func(r *rig){
		"flush":      func(r *rig) { r.Taking(pairKey, r.rq.Consumer(), false); r.complete(queue.WRFlushErr) },
		"reset":      func(r *rig) { r.Emptied(pairKey) },
		"destroy":    func(r *rig) { r.Destroyed(pairKey) },
		"deregister": func(r *rig) { r.state = qp.Err; r.deregister(r.mr) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "default")
			other := r.register(t, 1, qp.LocalWrite)
			r.receive(r.mr.Key)
			r.post(queue.Read, queue.Signaled, r.mr.Key)
			r.buffer[3]++
			end(r)
			if d := other.Put(0x1000, []byte{1}); d.Err() != nil {
				t.Fatal(d)
			}
			r.expectNothing(t)
			if n := len(r.lent.spans); n > 0 {
				t.Errorf("%d parts are lent", n)
			}
		})
	}
}

// The program posts to a queue again that was reset, from its first index on or not.
func TestSanitizerQueueIsUsedAgainAfterReset(t *testing.T) {
	r := newRig(t, "default")
	for range 3 {
		r.receive(r.mr.Key)
		r.rq.Release(r.rq.Producer())
		r.Emptied(pairKey)
	}
	r.receive(r.mr.Key)
	r.buffer[0]++
	r.arrive(t, 1)
	if len(r.found) != 1 {
		t.Errorf("found %v", r.found)
	}
}

// The device may find a receive in the ring before the program has told of it.
func TestSanitizerReceiveTakenBeforeItIsLookedAt(t *testing.T) {
	r := newRig(t, "default")
	for range 20 {
		i := r.rq.Producer()
		r.rq.At(i).NumSGE = 1
		r.rq.SGERoom(i)[0] = memory.SGE{Addr: 0x1000, Length: 64, LKey: r.mr.Key}
		r.rq.Publish(r.rq.Next(i))
		r.arrive(t, 1)
		r.buffer[2]++
		r.PostedReceives(pairKey)
		r.buffer[2]++
		r.receive(r.mr.Key)
		r.arrive(t, 2)
	}
	r.expectNothing(t)
}

// Receives of a shared queue, which is resized, are found by the queue.
func TestSanitizerReceivesOfASharedQueue(t *testing.T) {
	r := newRig(t, "default")
	r.CreatedSRQ("srq", Receives{PD: 1, Ring: func() *queue.RecvRing { return r.rq }})
	post := func() {
		i := r.rq.Producer()
		r.rq.At(i).NumSGE = 1
		r.rq.SGERoom(i)[0] = memory.SGE{Addr: 0x1000, Length: 64, LKey: r.mr.Key}
		r.rq.Publish(r.rq.Next(i))
		r.PostedReceives("srq")
	}
	post()
	r.rq = queue.NewRecvRing(3, 1)
	r.Emptied("srq")
	r.buffer[0]++
	post()
	r.Taking("srq", r.rq.Consumer(), true)
	r.expectNothing(t)
	r.rq.Release(r.rq.Producer())
	post()
	r.buffer[0]++
	r.Taking("srq", r.rq.Consumer(), true)
	if len(r.found) != 1 || r.found[0].Rule != "RECEIVE_CHANGED" || r.found[0].Object != "shared receive queue" {
		t.Errorf("found %v", r.found)
	}
}

// Parts are found although a longer one begins far before them.
func TestLoansAreFoundByAnyOfTheirBytes(t *testing.T) {
	var l loans
	b := make([]byte, 1000)
	long, short := &loan{parts: [][]byte{b[10:900]}}, &loan{parts: [][]byte{b[20:30], b[950:960]}}
	l.add(short)
	l.add(long)
	for _, c := range []struct {
		from, to int
		want     *loan
	}{{0, 10, nil}, {9, 11, long}, {899, 900, long}, {900, 950, nil}, {959, 1000, short}, {960, 1000, nil}} {
		if found := l.of(b[c.from:c.to]); found != c.want {
			t.Errorf("bytes %d to %d: found %v", c.from, c.to, found)
		}
	}
	if !l.remove(long) || l.remove(long) || l.of(b[25:26]) != short || !l.remove(short) || l.of(b) != nil {
		t.Error("loans are left")
	}
}
