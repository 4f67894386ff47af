package message

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
)

// stream sends bytes of the stream.
func (e *end) stream(n int) {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(e.world.rng.Uint32())
	}
	e.streamed = append(e.streamed, b...)
	s := &Send{Class: Stream, Data: e.world.pieces(b), Length: n}
	e.sends = append(e.sends, s)
	e.w.Send(e.peer, s)
}

// readBytes checks that the data of the stream arrives once and in order.
func (e *end) readBytes(b []byte) {
	if e.other == nil {
		return
	}
	if sent := e.other.streamed; e.read+len(b) > len(sent) || !bytes.Equal(sent[e.read:e.read+len(b)], b) {
		e.world.failf("other bytes of the stream arrive at %d", e.read)
	}
	e.read += len(b)
}

// readStream reads some of the stream in a random way.
func (e *end) readStream() {
	rng := e.world.rng
	switch rng.IntN(5) {
	case 0, 1:
		r := e.buffer(rng.IntN(100))
		r.All = rng.IntN(3) == 0
		e.reading = append(e.reading, r)
		e.w.ReceiveStream(e.peer, r)
	case 2:
		readable := len(e.w.Readable(make([]*Peer, 0, 1))) == 1
		c, _ := e.w.TakeStream(e.peer)
		if (c != nil) != readable {
			e.world.failf("a stream with bytes is not readable, or the reverse")
		}
		if c != nil {
			e.readBytes(c.Bytes)
			e.chunks = append(e.chunks, c)
		}
	case 3:
		if len(e.chunks) > 0 {
			i := rng.IntN(len(e.chunks))
			e.w.ReleaseChunk(e.chunks[i])
			e.chunks = slices.Delete(e.chunks, i, i+1)
		}
	case 4:
		if len(e.reading) > 0 {
			e.w.CancelStream(e.peer, e.reading[rng.IntN(len(e.reading))])
		}
	}
}

// A receiver that keeps most of its window unread still receives with the rest.
func TestReceiverThatKeepsMuchStillReceives(t *testing.T) {
	w := &world{rng: rand.New(rand.NewPCG(1, 2))}
	c := Config{Eager: 60, Credits: 8, Announced: 8, Active: 8, Stream: 80}
	w.connect([2]Config{c, c}, 1)
	a, b := w.ends[0], w.ends[1]
	for range 12 {
		a.sendActive(1, 1)
		a.stream(10)
	}
	w.flow()
	if len(b.held) != c.Active || b.peer.in.unpaid != c.Stream {
		t.Fatalf("%d active messages and %d bytes arrived", len(b.held), b.peer.in.unpaid)
	}
	for i := range 4 { // one at a time; the other seven stay
		b.w.ReleaseActive(&b.held[len(b.held)-1].Active)
		w.flow()
		if b.handled != c.Active+i+1 {
			t.Errorf("after %d releases %d active messages arrived", i+1, b.handled)
		}
	}
	for range 6 { // 60 of the 80 bytes stay
		chunk, _ := b.w.TakeStream(b.peer)
		b.readBytes(chunk.Bytes)
		b.chunks = append(b.chunks, chunk)
	}
	for b.read < 120 {
		r := b.buffer(10)
		b.reading = append(b.reading, r)
		b.w.ReceiveStream(b.peer, r)
		w.flow()
		if _, ended := b.ended[r]; !ended {
			t.Fatalf("the stream stops after %d of 120 bytes, with 60 kept", b.read)
		}
	}
	if w.err != nil {
		t.Error(w.err)
	}
}
