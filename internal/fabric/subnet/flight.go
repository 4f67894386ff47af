package subnet

import (
	"time"

	"softrdma/internal/topology"
)

// A flight is a frame on a cable.
type flight struct {
	at    time.Duration // when it arrives
	to    topology.End
	epoch uint32
	frame []byte
}

// A training is ports at the ends of a cable that agree on a link.
type training struct {
	at    topology.End
	epoch uint32
}

// flights are the frames on all cables. Each cable has the same delay, so they arrive in the order
// in which they left.
type flights struct {
	list []flight // the first ones have arrived
	head int
}

// next is when the next frame arrives.
func (q *flights) next() time.Duration {
	if q.head == len(q.list) {
		return Never
	}
	return q.list[q.head].at
}

func (q *flights) push(f flight) {
	if len(q.list) == cap(q.list) && q.head > len(q.list)/2 {
		n := copy(q.list, q.list[q.head:])
		clear(q.list[n:])
		q.list, q.head = q.list[:n], 0
	}
	q.list = append(q.list, f)
}

// pop takes the next frame, which there is.
func (q *flights) pop() flight {
	f := &q.list[q.head]
	taken := *f
	f.frame = nil
	if q.head++; q.head == len(q.list) {
		q.list, q.head = q.list[:0], 0
	}
	return taken
}
