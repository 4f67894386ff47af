package message

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"softrdma/internal/tagmatch"
)

// batching returns two ends of a connection with a number of credits.
func batching(credits, eager int) (w *world, a, b *end) {
	w = &world{rng: rand.New(rand.NewPCG(3, 4))}
	c := Config{Eager: eager, Credits: credits, Announced: 8, Active: 8, Stream: 80}
	w.connect([2]Config{c, c}, 1)
	return w, w.ends[0], w.ends[1]
}

// frames returns the kinds of the frames in flight, and delivers them.
func (e *end) frames() (kinds []kind) {
	for len(e.out) > 0 {
		kinds = append(kinds, kind(e.out[0][1]))
		e.deliver()
	}
	return kinds
}

func (e *end) receive(n int, tag uint64) *Receive {
	r := e.buffer(n)
	r.Tag, r.Mask = tag, tagmatch.All
	e.w.Receive(r)
	return r
}

// Messages that waited for credits leave in one frame, in order, and each is matched,
// truncated or finished separately.
func TestMessagesThatWaitedForCreditsShareAFrame(t *testing.T) {
	w, a, b := batching(4, 300)
	for i := range 8 {
		a.send(i, uint64(i), i == 6)
	}
	for tag := range uint64(4) {
		b.receive(200, tag)
	}
	if got := a.frames(); len(got) != 4 {
		t.Fatalf("frames %v with 4 credits", got)
	}
	b.frames() // each returns half of the credits
	if got := a.frames(); len(got) != 2 || got[0] != kindBatch || got[1] != kindBatch {
		t.Fatalf("frames %v after 4 credits, expected two batches", got)
	}
	sync, long := a.sends[6], b.receive(3, 5)
	if err := b.ended[long]; !errors.Is(err, ErrTruncated) {
		t.Errorf("receive that is too short: %v", err)
	}
	if i, ok := b.w.Probe(6, tagmatch.All); !ok || i.Length != sync.Length {
		t.Errorf("probe finds %v, %+v", ok, i)
	}
	if _, ended := a.ended[sync]; ended {
		t.Error("a synchronous send ends before the match")
	}
	for _, tag := range []uint64{4, 6, 7} {
		if _, ok := b.ended[b.receive(200, tag)]; !ok {
			t.Errorf("message %d of a batch has not arrived", tag)
		}
	}
	w.flow()
	if err, ended := a.ended[sync]; !ended || err != nil {
		t.Errorf("synchronous send: ended %v, %v", ended, err)
	}
	if w.err != nil {
		t.Error(w.err)
	}
}

// A batch is no longer than the longest frame, and contains no message that is cheaper in a
// separate frame.
func TestBatchesAreBounded(t *testing.T) {
	for _, c := range []struct {
		eager, bytes int
		want         []kind
	}{
		{64, 60, []kind{kindBatch}},
		{4000, maxEntry, []kind{kindBatch}},
		{4000, maxEntry + 1, []kind{kindEager, kindEager}},
		{600, 600, []kind{kindBatch}}, // 1232 of 1280 bytes
		{700, 640, []kind{kindEager, kindEager}},
	} {
		_, a, b := batching(2, c.eager)
		for _, n := range []int{4, 4, c.bytes, c.bytes} {
			a.send(n-4, 1, false)
		}
		b.receive(4, 1)
		b.receive(4, 1)
		a.deliver()
		a.deliver()
		for len(b.out) > 1 {
			b.out[1][5] += b.out[0][5] // both credits at once
			b.out = b.out[1:]
		}
		b.frames()
		if got := a.frames(); !slices.Equal(got, c.want) {
			t.Errorf("2 messages of %d bytes to a worker with eager messages of %d: frames %v, expected %v", c.bytes, c.eager, got, c.want)
		}
	}
}

// A receiver that has matched a batch returns its credits with one frame, and one that has
// matched nothing reports that it is full.
func TestBatchIsAnsweredOnce(t *testing.T) {
	for name, c := range map[string]struct {
		receives int
		flags    uint8
	}{"matched": {8, 0}, "unmatched": {0, flagFull}} {
		_, a, b := batching(8, 64)
		for range 16 {
			a.send(0, 1, false)
		}
		for range 8 {
			b.receive(4, 1)
		}
		a.frames()
		batches := 0
		for len(b.out) > 0 { // each frees a batch
			b.deliver()
			batches++
		}
		for range c.receives {
			b.receive(4, 1)
		}
		if got := a.frames(); len(got) != batches || slices.Contains(got, kindEager) {
			t.Fatalf("%s: frames %v after %d of credits", name, got, batches)
		}
		last := b.out[len(b.out)-1]
		if c.receives == 0 && (len(b.out) != 1 || last[2] != c.flags) || c.receives > 0 && len(b.out) != batches {
			t.Errorf("%s: %d answers to %d batches, the last one with flags %#x", name, len(b.out), batches, last[2])
		}
	}
}
