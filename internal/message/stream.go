package message

import (
	"fmt"
	"slices"
)

// A stream is data of a peer that belongs to no message. Receives wait only while there are no
// chunks.
type stream struct {
	receives []*Receive
	chunks   []*Chunk // unread data, oldest first
	owed     int      // bytes that were read, to return to the peer's window
	unpaid   int      // bytes that arrived and were not returned
	ready    bool     // in streams.ready
}

// streams has the streams of a worker's peers.
type streams struct {
	*frames
	ready  []*Peer  // that may have chunks
	chunks []*Chunk // unused
}

// A Chunk is a piece of received stream data.
type Chunk struct {
	Bytes []byte

	from   *Peer
	memory []byte
}

// beginStream sends data of a stream, and reports whether it sent all of it.
func (t *streams) beginStream(p *Peer, s *Send) bool {
	for s.sent < s.Length {
		n := min(s.Length-s.sent, p.config.Eager, p.window)
		if n == 0 {
			return false
		}
		t.parts = cut(t.parts[:0], s.Data, s.sent, n)
		s.sent += n
		p.window -= n
		t.out = Header{kind: kindStream, length: uint64(n)}
		t.transmit(p, &t.out, t.parts)
		clear(t.parts)
	}
	t.env.Sent(s, nil)
	return true
}

// cut appends the pieces of n bytes at an offset.
func cut(list, from [][]byte, at, n int) [][]byte {
	for _, b := range from {
		if at >= len(b) {
			at -= len(b)
			continue
		}
		b = b[at:min(at+n, len(b))]
		list = append(list, b)
		if n -= len(b); n == 0 {
			break
		}
		at = 0
	}
	return list
}

// takeStream handles data of a stream.
func (t *streams) takeStream(p *Peer, h *Header, payload []byte) error {
	if h.length != uint64(len(payload)) || len(payload) == 0 || len(payload) > t.config.Eager {
		return fmt.Errorf("%w: %d bytes of a stream in %d, expected at most %d", ErrFrame, h.length, len(payload), t.config.Eager)
	}
	in := &p.in
	if in.unpaid += len(payload); in.unpaid > t.config.Stream {
		return fmt.Errorf("%w: more than %d bytes of a stream", ErrLimit, t.config.Stream)
	}
	for len(in.receives) > 0 && len(payload) > 0 {
		r := in.receives[0]
		payload = payload[t.fill(p, r, payload):]
		if r.full() {
			in.receives = slices.Delete(in.receives, 0, 1)
			t.env.Received(r, Info{Length: r.filled, From: p}, nil)
		}
	}
	if len(payload) > 0 {
		t.keep(p, payload)
	}
	t.reopen(p)
	return nil
}

// takeWindow handles bytes returned to this worker's window.
func (t *streams) takeWindow(p *Peer, h *Header) error {
	if h.length > uint64(p.config.Stream-p.window) {
		return fmt.Errorf("%w: window of %d and %d bytes, expected at most %d", ErrFrame, p.window, h.length, p.config.Stream)
	}
	p.window += int(h.length)
	return nil
}

// full reports whether a receive of a stream is satisfied.
func (r *Receive) full() bool { return r.filled == r.Length || r.filled > 0 && !r.All }

// fill gives bytes to a receive, and returns how many it accepted.
func (t *streams) fill(p *Peer, r *Receive, b []byte) int {
	n := min(len(b), r.Length-r.filled)
	t.parts = cut(t.parts[:0], r.Buffer, r.filled, n)
	spread(t.parts, b)
	clear(t.parts)
	r.filled += n
	p.in.owed += n
	return n
}

// maxChunks bounds the chunks that a worker keeps for reuse.
const maxChunks = 256

// keep keeps data that no receive waits for.
func (t *streams) keep(p *Peer, b []byte) {
	c := &Chunk{}
	if n := len(t.chunks); n > 0 {
		c, t.chunks = t.chunks[n-1], t.chunks[:n-1]
	}
	c.from, c.memory = p, append(c.memory[:0], b...)
	c.Bytes = c.memory
	p.in.chunks = append(p.in.chunks, c)
	if !p.in.ready {
		p.in.ready = true
		t.ready = append(t.ready, p)
	}
}

// reopen returns bytes to the peer's window: when half of it is owed, and before a receiver
// that has read everything waits for a peer without a window.
func (t *streams) reopen(p *Peer) {
	in := &p.in
	if p.err != nil || in.owed == 0 || in.owed*2 < t.config.Stream && (in.unpaid < t.config.Stream || len(in.chunks) > 0) {
		return
	}
	t.out = Header{kind: kindWindow, length: uint64(in.owed)}
	in.unpaid -= in.owed
	in.owed = 0
	t.transmit(p, &t.out, nil)
}

// ReceiveStream receives data of a peer's stream: as many bytes as r.Buffer holds if r.All,
// otherwise the available ones, and at least one. Receives of a peer end in the order in which
// they began; an empty one ends at once.
func (t *streams) ReceiveStream(p *Peer, r *Receive) {
	in := &p.in
	r.filled = 0
	for len(in.chunks) > 0 && r.filled < r.Length {
		c := in.chunks[0]
		if c.Bytes = c.Bytes[t.fill(p, r, c.Bytes):]; len(c.Bytes) == 0 {
			in.chunks = slices.Delete(in.chunks, 0, 1)
			t.recycleChunk(c)
		}
	}
	switch {
	case r.full():
		t.env.Received(r, Info{Length: r.filled, From: p}, nil)
	case p.err != nil:
		t.env.Received(r, Info{Length: r.filled, From: p}, p.err)
	default:
		in.receives = append(in.receives, r)
	}
	t.reopen(p)
}

// CancelStream ends a receive of a stream that has no bytes yet, and reports whether it did.
func (t *streams) CancelStream(p *Peer, r *Receive) bool {
	i := slices.Index(p.in.receives, r)
	if i < 0 || r.filled > 0 {
		return false
	}
	p.in.receives = slices.Delete(p.in.receives, i, i+1)
	t.env.Received(r, Info{From: p}, ErrCanceled)
	return true
}

// TakeStream removes the oldest unread data of a peer's stream, or returns nil. The owner
// calls ReleaseChunk. If there is no data, the error is that with which the peer failed.
func (t *streams) TakeStream(p *Peer) (*Chunk, error) {
	in := &p.in
	if len(in.chunks) == 0 {
		return nil, p.err
	}
	c := in.chunks[0]
	in.chunks = slices.Delete(in.chunks, 0, 1)
	return c, nil
}

// ReleaseChunk returns a chunk of TakeStream. Its bytes belong to the worker again.
func (t *streams) ReleaseChunk(c *Chunk) {
	p := c.from
	p.in.owed += len(c.Bytes)
	t.recycleChunk(c)
	t.reopen(p)
}

func (t *streams) recycleChunk(c *Chunk) {
	if c.Bytes, c.from = nil, nil; len(t.chunks) < maxChunks {
		t.chunks = append(t.chunks, c)
	}
}

// Readable appends the peers with unread stream data to a list, up to its capacity. Each call
// begins with those that were not reported for the longest time.
func (t *streams) Readable(list []*Peer) []*Peer {
	reported := len(list)
	n := 0
	for _, p := range t.ready {
		switch {
		case len(p.in.chunks) == 0:
			p.in.ready = false
			continue
		case len(list) < cap(list):
			list = append(list, p)
			continue
		}
		t.ready[n] = p
		n++
	}
	t.ready = append(t.ready[:n], list[reported:]...)
	return list
}

// failStream ends the receives of a stream.
func (t *streams) failStream(p *Peer, err error) {
	receives := p.in.receives
	p.in.receives = nil
	for _, r := range receives {
		t.env.Received(r, Info{Length: r.filled, From: p}, err)
	}
}
