package adapter

import (
	"iter"

	"softrdma/internal/qp"
)

// inboxLimit bounds the bytes of the packets that wait. Those beyond it are lost, as beyond a
// receive buffer.
const inboxLimit = 4 << 20

// An arrival is what a lane knows of a packet beside its bytes.
type arrival struct {
	Src, Dst qp.Endpoint
	TOS, TTL uint8
	Memory   bool // it came by no network
	New      bool // rules of faults have not seen it
}

// An inbox holds packets on their way from one lane to another: those that the system brought to
// the wrong one, and those from a lane of this process whose receiver is busy. It holds them in
// order, with their bytes one behind the other. The zero value is empty.
type inbox struct {
	list []inboxEntry
	data []byte
}

type inboxEntry struct {
	arrival
	n int // bytes
}

// put appends a copy of a packet with its bytes from BTH to ICRC, and reports whether there
// was room.
func (q *inbox) put(p arrival, b []byte) bool {
	if len(q.data)+len(b) > inboxLimit {
		return false
	}
	q.list = append(q.list, inboxEntry{p, len(b)})
	q.data = append(q.data, b...)
	return true
}

// all returns the packets with their bytes, which are valid until clear.
func (q *inbox) all() iter.Seq2[*arrival, []byte] {
	return func(yield func(*arrival, []byte) bool) {
		data := q.data
		for i := range q.list {
			e := &q.list[i]
			if !yield(&e.arrival, data[:e.n:e.n]) {
				return
			}
			data = data[e.n:]
		}
	}
}

// clear removes all packets. The queue keeps its memory.
func (q *inbox) clear() { q.list, q.data = q.list[:0], q.data[:0] }
