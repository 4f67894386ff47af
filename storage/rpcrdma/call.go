package rpcrdma

import (
	"context"
	"errors"
	"fmt"

	"softrdma/storage/internal/channel"
	"softrdma/storage/rpcrdma/wire"
	"softrdma/verbs"
)

// handle handles a message. An error ends the connection.
func (c *client) handle(ctx context.Context, m channel.Message) error {
	h, body, err := wire.Parse(m.Data)
	switch {
	case errors.Is(err, wire.ErrVersion), errors.Is(err, wire.ErrChunk):
		c.Release(m)
		return c.refuse(h.XID, err)
	case err != nil || h.Type == wire.Done || h.Type == wire.Error:
		c.server.counters.ignored.Add(1) // RFC 8166 4.5: a responder has nothing to answer
		c.Release(m)
		return nil
	}
	p, err := assemble(&h, body, c.cfg.MaxMessage)
	if err != nil {
		c.Release(m)
		return c.refuse(h.XID, err)
	}
	room := c.room(&h)
	reply := bufferAlign(p.length)
	out := reply + bufferAlign(room)
	b, err := c.Buffer(out + c.send)
	if err != nil {
		c.Release(m)
		return err
	}
	err = c.execute(ctx, &h, &p, answer{b: b, at: reply, n: room, out: out}, m)
	c.Put(b) // an error is answered from a buffer of its own
	if errors.Is(err, ErrReplySize) || errors.Is(err, wire.ErrChunk) {
		return c.refuse(h.XID, err)
	}
	return err
}

// execute fetches a call, executes it and replies. The answer has room for n bytes.
func (c *client) execute(ctx context.Context, h *wire.Header, p *layout, a answer, m channel.Message) (err error) {
	call := a.b.Bytes[:p.length]
	for _, i := range p.inline {
		copy(call[i.at:], i.data)
	}
	// The reply gives the client the credit for another call, so the receive is posted before.
	c.Release(m)
	if err = c.read(a.b, p.reads); err != nil {
		return err
	}
	c.server.counters.calls.Add(1)
	if a.n, a.items, err = c.server.Service.Call(ctx, call, a.b.Bytes[a.at:a.at+a.n]); err != nil {
		return err
	}
	return c.reply(h, a)
}

// bufferAlign rounds up to where the next part of a buffer begins.
func bufferAlign(n int) int { return (n + 63) &^ 63 }

// room returns how long a reply may be: the client's memory, and what is sent inline.
func (c *client) room(h *wire.Header) int {
	n := wire.Length(h.Reply) + uint64(c.send)
	for _, w := range h.Writes {
		n += wire.Length(w) + 4
	}
	return int(min(n, uint64(c.cfg.MaxMessage)))
}

// read READs pieces of a call, and waits for them.
func (c *client) read(b *channel.Buffer, reads []remotePiece) error {
	wrs := make([]verbs.SendWR, 0, len(reads))
	for _, r := range reads {
		c.server.counters.bytesIn.Add(uint64(r.n))
		wrs = append(wrs, verbs.SendWR{Op: verbs.OpRead, SGL: []verbs.SGE{b.SGE(r.at, r.n)}, RemoteAddr: r.addr, RKey: r.rkey})
	}
	return c.Do(wrs...)
}

// refuse answers a call with an error of the transport.
func (c *client) refuse(xid uint32, cause error) error {
	c.server.counters.refused.Add(1)
	h := wire.Header{XID: xid, Credits: uint32(c.cfg.Credits), Type: wire.Error, Code: wire.CodeChunk}
	if errors.Is(cause, wire.ErrVersion) {
		h.Code, h.Low, h.High = wire.CodeVersion, wire.Version, wire.Version
	}
	b, err := c.Buffer(h.Len())
	if err != nil {
		return err
	}
	defer c.Put(b)
	return c.Do(verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{b.SGE(0, len(h.Append(b.Bytes[:0])))}})
}

// A layout says where the bytes of a call come from.
type layout struct {
	length int
	inline []inlinePiece
	reads  []remotePiece
}

type inlinePiece struct {
	at   int
	data []byte
}

type remotePiece struct {
	at, n int
	addr  uint64
	rkey  uint32
}

// assemble finds the layout of the call of a header: the inline message, or the chunk at position
// zero, with the other read chunks inserted (RFC 8166 3.4.5).
func assemble(h *wire.Header, body []byte, limit int) (p layout, err error) {
	reads := h.Reads
	whole := 0 // segments at position zero
	for whole < len(reads) && reads[whole].Position == 0 {
		whole++
	}
	base := source{inline: body, left: len(body)}
	switch {
	case h.Type == wire.NoMsg && whole == 0:
		return p, fmt.Errorf("%w: expected a chunk at position 0, found none", wire.ErrChunk)
	case h.Type == wire.Msg && whole > 0:
		return p, fmt.Errorf("%w: expected an inline call or a chunk at position 0, found both", wire.ErrChunk)
	case h.Type == wire.NoMsg:
		base = source{segments: segmentsOf(reads[:whole])}
		n := wire.Length(base.segments)
		if n > uint64(limit) {
			return p, fmt.Errorf("%w: expected a call of at most %d bytes, found %d", wire.ErrChunk, limit, n)
		}
		base.left = int(n)
	}
	for rest := reads[whole:]; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].Position == rest[0].Position {
			n++
		}
		at := int(rest[0].Position)
		if at < p.length || at-p.length > base.left {
			return p, fmt.Errorf("%w: expected a position from %d to %d, found %d", wire.ErrChunk, p.length, p.length+base.left, at)
		}
		p.take(&base, at-p.length)
		chunk := source{segments: segmentsOf(rest[:n])}
		size := wire.Length(chunk.segments)
		if size > uint64(limit) {
			return p, fmt.Errorf("%w: expected a call of at most %d bytes, found a chunk of %d", wire.ErrChunk, limit, size)
		}
		chunk.left = int(size)
		p.take(&chunk, chunk.left)
		// Padding is not part of a chunk (RFC 8166 3.4.5.2).
		p.inline = append(p.inline, inlinePiece{p.length, padding[:wire.Pad(p.length)-p.length]})
		p.length = wire.Pad(p.length)
		rest = rest[n:]
	}
	p.take(&base, base.left)
	if p.length > limit {
		return p, fmt.Errorf("%w: expected a call of at most %d bytes, found %d", wire.ErrChunk, limit, p.length)
	}
	return p, nil
}

func segmentsOf(reads []wire.ReadSegment) []wire.Segment {
	segments := make([]wire.Segment, len(reads))
	for i, r := range reads {
		segments[i] = r.Segment
	}
	return segments
}

// padding are the zeros that XDR has after a data item.
var padding [3]byte

// A source is a run of bytes: inline, or in segments.
type source struct {
	inline   []byte
	segments []wire.Segment
	left     int
}

// take appends the next n bytes of a source, which has them.
func (p *layout) take(s *source, n int) {
	s.left -= n
	if s.segments == nil {
		if n > 0 {
			p.inline = append(p.inline, inlinePiece{p.length, s.inline[:n]})
		}
		s.inline = s.inline[n:]
		p.length += n
		return
	}
	for n > 0 {
		first := &s.segments[0]
		k := min(n, int(first.Length))
		if k > 0 {
			p.reads = append(p.reads, remotePiece{p.length, k, first.Offset, first.Handle})
		}
		p.length += k
		n -= k
		first.Offset += uint64(k)
		if first.Length -= uint32(k); first.Length == 0 {
			s.segments = s.segments[1:]
		}
	}
}
