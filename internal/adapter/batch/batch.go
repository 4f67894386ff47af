// Package batch builds what a lane sends at once: packets of one flow and one size, one
// behind the other, each with its headers, padding and ICRC. Long payloads are not
// copied: they stay where they lie, as pieces of the batch. The package sends nothing.
package batch

import (
	"iter"
	"softrdma/internal/frame"
	"softrdma/internal/link"
	"softrdma/internal/machine"
	"softrdma/internal/wire/ib"
)

// stageLimit is the length up to which a packet is copied as a whole. Longer ones are
// sent as gather lists. Measured: copying is faster up to about 1.5 KB.
const stageLimit = 1536

// A Builder builds a batch. It owns the arena that headers, trailers and short packets are
// written to. The payloads that it gathers belong to the machines: the batch is sent
// before any machine sees another packet.
type Builder struct {
	// Tx is the batch.
	Tx link.Tx

	// N is the number of its packets.
	N int

	flow   *frame.Flow
	class  frame.Class
	crc    *ib.Prefix // of flow
	arena  []byte
	used   int
	front  int  // bytes of the frame's header in front of each packet
	head   int  // where the last packet lies in the arena
	sealed bool // a shorter packet ends the batch
	one    [1][]byte
	middle ib.Template // of the train's next packet

	maxBytes, maxPackets int // of a batch
	overhead             int // bytes of each packet that count, too
}

// Init prepares the builder for a link.
func (b *Builder) Init(c link.Capabilities) {
	b.maxBytes, b.maxPackets, b.overhead = c.Bytes, c.Packets, c.Overhead
	b.arena = make([]byte, link.MaxBatch+link.MaxPackets*(ib.MaxHeaderLen+8))
	b.Tx.Pieces = make([][]byte, 0, 4*link.MaxPackets)
}

// Accepts reports whether the batch has room for a packet of a flow, of size bytes with
// the frame's header. An empty batch accepts any.
func (b *Builder) Accepts(f *frame.Flow, size int, class frame.Class) bool {
	return b.N == 0 || !b.sealed && f == b.flow && size <= b.Tx.Size && b.fits(size) && class == b.class
}

// Begin begins a batch of packets of size bytes.
func (b *Builder) Begin(f *frame.Flow, size int, class frame.Class) {
	b.flow, b.class, b.crc, b.front = f, class, &f.CRC, f.HeaderLen()
	b.Tx.Flow, b.Tx.Size, b.Tx.TOS, b.Tx.HopLimit = f.Link, size, class.TrafficClass, class.HopLimit
}

// fits reports whether the batch has room for one more packet.
func (b *Builder) fits(size int) bool {
	return b.Tx.Bytes+size+(b.N+1)*b.overhead <= b.maxBytes && b.N < b.maxPackets
}

// Append adds a packet, with length bytes from BTH to ICRC, to a batch that was begun and
// accepts it.
func (b *Builder) Append(o *machine.Out, length int) {
	end := b.used
	if b.front > 0 {
		end += copy(b.arena[end:], b.flow.Header(length))
	}
	end += o.PutHeaders(b.arena[end:])
	b.body(b.used, end, length, o.Pieces, o.Pad, o.Opcode.Info().Kind == ib.KindReadResponse)
	size := b.front + length
	b.sealed = size < b.Tx.Size
	b.Tx.Bytes += size
	b.N++
}

// Follow makes the packet added last the model of those that Next adds.
func (b *Builder) Follow() { b.middle.Follow(b.arena[b.head+b.front:]) }

// Next adds packet i of a train, neither its first nor its last, whose header follows from
// that of the packet before. It does nothing and reports false if the packet does not fit
// into the batch, or is in several pieces.
func (b *Builder) Next(o *machine.Out, i, mtu int) bool {
	length := ib.BTHLen + mtu + ib.ICRCLen
	if b.N == 0 || b.front+length != b.Tx.Size || !b.fits(b.front+length) || len(o.Pieces) != 1 {
		return false
	}
	start, end := b.used, b.used+b.front+ib.BTHLen
	if b.front > 0 {
		copy(b.arena[start:], b.flow.Header(length))
	}
	b.middle.Put(b.arena[end-ib.BTHLen:])
	b.middle.Next()
	b.one[0] = o.Pieces[0][i*mtu : (i+1)*mtu]
	b.body(start, end, length, b.one[:], 0, o.Opcode.Info().Kind == ib.KindReadResponse)
	b.one[0] = nil
	b.Tx.Bytes += b.Tx.Size
	b.N++
	return true
}

// body completes the packet whose headers lie from start to end in the arena, beginning
// with the frame's. The packet then lies there as a whole, or as its
// headers and trailer around the payload's own memory. Data that others may be changing
// while it is sent, as READ responses read it, is copied before its CRC is computed.
func (b *Builder) body(start, end, length int, pieces [][]byte, pad uint8, changing bool) {
	b.head = start
	behind := start + b.front + ib.BTHLen
	bth := b.arena[behind-ib.BTHLen : behind]
	var crc uint32
	if length <= stageLimit || changing {
		end = b.stage(end, pieces, pad)
		crc = b.crc.Join(length, b.ID(), bth, b.arena[behind:end])
	} else {
		b.piece(start, end)
		b.Tx.Pieces = append(b.Tx.Pieces, pieces...)
		if first := b.arena[behind:end]; len(first) > 0 {
			crc = b.crc.Join(length, b.ID(), bth, first)
		} else {
			crc = b.crc.Join(length, b.ID(), bth, pieces[0])
			pieces = pieces[1:]
		}
		for _, p := range pieces {
			crc = ib.Extend(crc, p)
		}
		start = end
		end = b.pad(end, pad)
		crc = ib.Extend(crc, b.arena[start:end])
	}
	ib.PutICRC(b.arena[end:], crc)
	end += ib.ICRCLen
	b.piece(start, end)
	b.used = end
}

// ID is the number that the packet being added will leave with.
func (b *Builder) ID() uint16 { return b.flow.ID(b.N) }

// stage copies a payload with its padding to the arena, and returns where it ends.
func (b *Builder) stage(at int, pieces [][]byte, pad uint8) int {
	for _, p := range pieces {
		at += copy(b.arena[at:], p)
	}
	return b.pad(at, pad)
}

func (b *Builder) pad(at int, n uint8) int {
	for range n {
		b.arena[at] = 0
		at++
	}
	return at
}

// piece adds a part of the arena to the batch. A part that continues the last piece
// lengthens it.
func (b *Builder) piece(start, end int) {
	if n := len(b.Tx.Pieces) - 1; n >= 0 && start > 0 {
		last := b.Tx.Pieces[n]
		if len(last) > 0 && &last[len(last)-1] == &b.arena[start-1] {
			b.Tx.Pieces[n] = b.arena[start-len(last) : end]
			return
		}
	}
	b.Tx.Pieces = append(b.Tx.Pieces, b.arena[start:end])
}

// Copy adds a packet as it is, from BTH to ICRC, with the frame's header in front, to a batch that was
// begun and accepts it. Its ICRC covers ID.
func (b *Builder) Copy(header, packet []byte) {
	end := b.used + copy(b.arena[b.used:], header)
	end += copy(b.arena[end:], packet)
	b.piece(b.used, end)
	size := end - b.used
	b.used = end
	b.sealed = size < b.Tx.Size
	b.Tx.Bytes += size
	b.N++
}

// Copied returns the packets of a batch from their BTH on, as far as they were copied whole.
func (b *Builder) Copied() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for at := 0; at < b.used; at += b.Tx.Size {
			if p := b.arena[at:min(at+b.Tx.Size, b.used)]; len(p) <= b.front || !yield(p[b.front:]) {
				return
			}
		}
	}
}

// Reset forgets the batch, which was sent.
func (b *Builder) Reset() {
	clear(b.Tx.Pieces)
	b.Tx.Pieces, b.Tx.Bytes = b.Tx.Pieces[:0], 0
	b.N, b.used, b.sealed = 0, 0, false
}

// Truncate removes what Append or Next has added of a packet before a panic.
func (b *Builder) Truncate() {
	left := b.Tx.Bytes
	for i, p := range b.Tx.Pieces {
		if left < len(p) {
			b.Tx.Pieces[i] = p[:left:left]
			n := i + min(left, 1)
			clear(b.Tx.Pieces[n:])
			b.Tx.Pieces = b.Tx.Pieces[:n]
			break
		}
		left -= len(p)
	}
	b.one[0] = nil
}
