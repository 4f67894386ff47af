package port

import (
	"time"

	"softrdma/internal/wire/ib"
)

// A Packet is a packet inside a node. Its receiver owns it until it passes it on.
type Packet struct {
	Data []byte // from the LRH to the VCRC
	LRH  ib.LRH
	VL   uint8         // lane by which the packet leaves
	Tail time.Duration // when its last byte has arrived
	Due  time.Duration // when it may leave
	Ends time.Duration // when its time in the switch is over

	blocks int
	in     *Port // has it in a buffer; nil for packets of the node itself
	inVL   uint8
	whole  *Packet // of which this one is a copy
	copies int     // of this packet that have not left
	next   *Packet
}

// In returns the number of the port at which the packet arrived, 0 for packets of the node
// itself.
func (k *Packet) In() int {
	if k.in == nil {
		return 0
	}
	return k.in.number
}

// sizes are the capacities of buffers: of link packets and acknowledges, of management
// packets, and of everything.
var sizes = [...]int{64, 320, ib.MaxNativeLen + 2}

// A Pool has unused buffers and packets. The nodes of a fabric can share one. It belongs to
// one goroutine at a time.
type Pool struct {
	buffers [len(sizes)][][]byte
	packets *Packet
}

// Buffer returns a buffer of n bytes with any content. n is at most ib.MaxNativeLen.
func (p *Pool) Buffer(n int) []byte {
	for i, size := range sizes {
		if n > size {
			continue
		}
		free := p.buffers[i]
		if len(free) == 0 {
			return make([]byte, n, size)
		}
		b := free[len(free)-1]
		p.buffers[i] = free[:len(free)-1]
		return b[:n]
	}
	return make([]byte, n)
}

// Recycle takes back a buffer that is no longer used. Buffers that are not from a pool
// are left to the garbage collector.
func (p *Pool) Recycle(b []byte) {
	for i, size := range sizes {
		if cap(b) == size {
			p.buffers[i] = append(p.buffers[i], b)
			return
		}
	}
}

func (p *Pool) packet() *Packet {
	k := p.packets
	if k == nil {
		return new(Packet)
	}
	p.packets, k.next = k.next, nil
	return k
}

func (p *Pool) recyclePacket(k *Packet) {
	*k = Packet{next: p.packets}
	p.packets = k
}

// Own makes a packet of the node itself of a frame, which the packet then owns. It reports
// whether the frame has an LRH, with the frame's length. The pool takes other frames back.
func (p *Pool) Own(frame []byte) (*Packet, bool) {
	var h ib.LRH
	if !h.Parse(frame) || len(frame) != 4*int(h.Words)+ib.VCRCLen {
		p.Recycle(frame)
		return nil, false
	}
	k := p.packet()
	k.Data, k.LRH, k.blocks, k.Ends = frame, h, ib.PacketBlocks(h.Words), Never
	return k, true
}

// Copy returns a copy of a packet. The buffer in which the packet arrived is free when
// the packet and all copies have left.
func (p *Pool) Copy(k *Packet) *Packet {
	c := p.packet()
	*c = *k
	c.Data = p.Buffer(len(k.Data))
	copy(c.Data, k.Data)
	c.in, c.whole, c.copies, c.next = nil, k, 0, nil
	k.copies++
	return c
}

// Free ends a packet's stay in the node: its place in the buffer and its frame are free
// again.
func (p *Pool) Free(now time.Duration, k *Packet) {
	if k.Data != nil {
		p.Recycle(k.Data)
		k.Data = nil
	}
	p.leave(now, k)
}

// Take ends a packet's stay in the node and returns its frame, which the caller owns.
func (p *Pool) Take(now time.Duration, k *Packet) []byte {
	frame := k.Data
	k.Data = nil
	p.leave(now, k)
	return frame
}

// leave frees the packet's place in the buffer, unless copies of it are still there.
func (p *Pool) leave(now time.Duration, k *Packet) {
	if k.copies > 0 {
		k.copies-- // the packet counts as one of its copies from now on
		return
	}
	if whole := k.whole; whole != nil {
		p.recyclePacket(k)
		p.leave(now, whole)
		return
	}
	if k.in != nil {
		k.in.free(now, k.inVL, k.blocks)
	}
	p.recyclePacket(k)
}

// A queue is a list of packets.
type queue struct {
	head, tail *Packet
	n          int
}

func (q *queue) push(k *Packet) {
	k.next = nil
	if q.tail == nil {
		q.head = k
	} else {
		q.tail.next = k
	}
	q.tail = k
	q.n++
}

func (q *queue) pop() *Packet {
	k := q.head
	q.head = k.next
	if q.head == nil {
		q.tail = nil
	}
	k.next = nil
	q.n--
	return k
}
