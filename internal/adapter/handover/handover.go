// Package handover holds packets on their way from one lane to another: those that the
// system brought to the wrong one, and those from a lane of this process whose receiver is
// busy. It takes no lock.
package handover

import (
	"iter"

	"softrdma/internal/qp"
)

// Limit bounds the bytes of the packets that wait. Those beyond it are lost, as beyond a
// receive buffer.
const Limit = 4 << 20

// A Packet is what a lane knows of a packet beside its bytes.
type Packet struct {
	Src, Dst qp.Endpoint
	TOS, TTL uint8
	Memory   bool // it came by no network
}

// A Queue holds packets in order, with their bytes one behind the other. The zero value is
// empty.
type Queue struct {
	list []entry
	data []byte
}

type entry struct {
	Packet
	n int // bytes
}

// Put appends a copy of a packet with its bytes from BTH to ICRC, and reports whether there
// was room.
func (q *Queue) Put(p Packet, b []byte) bool {
	if len(q.data)+len(b) > Limit {
		return false
	}
	q.list = append(q.list, entry{p, len(b)})
	q.data = append(q.data, b...)
	return true
}

// All returns the packets with their bytes, which are valid until Clear.
func (q *Queue) All() iter.Seq2[*Packet, []byte] {
	return func(yield func(*Packet, []byte) bool) {
		data := q.data
		for i := range q.list {
			e := &q.list[i]
			if !yield(&e.Packet, data[:e.n:e.n]) {
				return
			}
			data = data[e.n:]
		}
	}
}

// Clear removes all packets. The queue keeps its memory.
func (q *Queue) Clear() { q.list, q.data = q.list[:0], q.data[:0] }
