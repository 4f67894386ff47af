package rpcrdma

import (
	"fmt"

	"softrdma/storage/internal/channel"
	"softrdma/storage/rpcrdma/wire"
	"softrdma/verbs"
)

// An answer is a reply in a buffer, and where what is sent can be written.
type answer struct {
	b     *channel.Buffer
	at, n int // the reply
	items []Item
	out   int // room for a SEND
}

// reply sends a reply: it WRITEs data items to write chunks, the rest to the reply chunk if there is
// one, and SENDs the header. The client gets the SEND last, because requests of a queue pair are
// executed in order. Nothing was sent if the error wraps wire.ErrChunk.
func (c *client) reply(h *wire.Header, a answer) error {
	answered := wire.Header{XID: h.XID, Credits: uint32(c.cfg.Credits), Type: wire.Msg}
	var wrs []verbs.SendWR
	rest, used := []Item{}, 0 // what is not placed in write chunks
	for i, chunk := range h.Writes {
		var item Item // a chunk for which the reply has no item is returned empty (RFC 8166 3.4.6)
		if i < len(a.items) {
			item = a.items[i]
			rest = append(rest, Item{used, item.Offset - used})
			used = item.Offset + wire.Pad(item.Length) // padding is left out, too
		}
		placed := empty(chunk)
		if err := c.write(&wrs, a, item, chunk, placed); err != nil {
			return err
		}
		answered.Writes = append(answered.Writes, placed)
	}
	rest = append(rest, Item{used, max(a.n-used, 0)})
	length := 0
	for _, r := range rest {
		length += r.Length
	}
	if h.Reply != nil {
		answered.Type, answered.Reply = wire.NoMsg, empty(h.Reply)
		for _, r := range rest {
			if err := c.write(&wrs, a, r, h.Reply, answered.Reply); err != nil {
				return err
			}
		}
	}
	size := answered.Len()
	if h.Reply == nil {
		size += length
	}
	if size > c.send {
		return fmt.Errorf("%w: expected a reply chunk for a reply of %d bytes, found none", wire.ErrChunk, size)
	}
	message := answered.Append(a.b.Bytes[a.out:a.out])
	if h.Reply == nil {
		for _, r := range rest {
			message = append(message, a.b.Bytes[a.at+r.Offset:a.at+r.Offset+r.Length]...)
		}
	}
	send := verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{a.b.SGE(a.out, len(message))}}
	if key, ok := onlyKey(h); ok && c.invOK {
		send.Op, send.InvalidateKey = verbs.OpSendInv, key
	}
	return c.Do(append(wrs, send)...)
}

// empty returns the segments of a chunk without length, as they are answered if they are not used.
func empty(chunk []wire.Segment) []wire.Segment {
	used := make([]wire.Segment, len(chunk))
	for i, s := range chunk {
		used[i] = wire.Segment{Handle: s.Handle, Offset: s.Offset}
	}
	return used
}

// write appends WRITEs of a piece of the reply to a chunk, behind what is used of it already.
func (c *client) write(wrs *[]verbs.SendWR, a answer, piece Item, chunk, used []wire.Segment) error {
	for i, s := range chunk {
		n := min(piece.Length, int(s.Length-used[i].Length))
		if n == 0 {
			continue
		}
		*wrs = append(*wrs, verbs.SendWR{
			Op: verbs.OpWrite, SGL: []verbs.SGE{a.b.SGE(a.at+piece.Offset, n)}, RemoteAddr: s.Offset + uint64(used[i].Length), RKey: s.Handle,
		})
		c.server.counters.bytesOut.Add(uint64(n))
		used[i].Length += uint32(n)
		piece.Offset += n
		piece.Length -= n
	}
	if piece.Length > 0 {
		return fmt.Errorf("%w: chunk of %d bytes is %d bytes too short for the reply", wire.ErrChunk, wire.Length(chunk), piece.Length)
	}
	return nil
}

// onlyKey returns the key of the client's memory, if it named only one.
func onlyKey(h *wire.Header) (key uint32, ok bool) {
	lists := append([][]wire.Segment{h.Reply, segmentsOf(h.Reads)}, h.Writes...)
	for _, l := range lists {
		for _, s := range l {
			if ok && s.Handle != key {
				return 0, false
			}
			key, ok = s.Handle, true
		}
	}
	return key, ok
}
