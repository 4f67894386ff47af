package machine

import (
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
)

// A SendQueue is a machine's position in the send queue of its queue pair. Requests
// before Head are complete and their slots are free. Requests from Head up to Cur have
// been sent, wholly or in part, and are not complete. Cur is the request to send from.
// End is the next one to fetch, for machines that copy requests out of the ring before
// they send them.
type SendQueue struct {
	Head, Cur, End uint32

	ring *queue.SendRing
}

// NewSendQueue returns the position of a queue pair that has sent nothing.
func NewSendQueue(p *Port) SendQueue {
	q := SendQueue{ring: p.SQ}
	q.Start()
	return q
}

// Start begins with the oldest request in the ring.
func (q *SendQueue) Start() { q.set(q.ring.Consumer()) }

// Drop removes all requests without completions (IBTA 10.3.1.1).
func (q *SendQueue) Drop() {
	q.ring.Release(q.ring.Producer())
	q.Start()
}

func (q *SendQueue) set(i uint32) { q.Head, q.Cur, q.End = i, i, i }

// Idle reports whether every request that was fetched is complete.
func (q *SendQueue) Idle() bool { return q.Head == q.End }

// More reports whether the ring holds a request behind Cur.
func (q *SendQueue) More() bool { return q.ring.Next(q.Cur) != q.ring.Producer() }

// Fetch moves End past the next request and returns the request's index. It reports
// false if there is none.
func (q *SendQueue) Fetch() (i uint32, ok bool) {
	if i, ok = q.Peek(); ok {
		q.Take()
	}
	return i, ok
}

// Peek is Fetch without moving End, which Take does.
func (q *SendQueue) Peek() (i uint32, ok bool) {
	// A producer of a shared ring may have overtaken its consumer.
	i = q.End
	return i, i != q.ring.Producer() && q.ring.Next(i) != q.Head
}

// Take moves End past the request that Peek has returned.
func (q *SendQueue) Take() { q.End = q.ring.Next(q.End) }

// Forward moves Cur to the next request.
func (q *SendQueue) Forward() { q.Cur = q.ring.Next(q.Cur) }

// Release frees the slot of the request at Head. It reports whether Cur had to move
// with Head: the request completed before it was sent again.
func (q *SendQueue) Release() (moved bool) {
	moved = q.Retire()
	q.Free()
	return moved
}

// Retire is Release for several requests: Free frees their slots after the last.
func (q *SendQueue) Retire() (moved bool) {
	next := q.ring.Next(q.Head)
	if moved = q.Cur == q.Head; moved {
		q.Cur = next
	}
	q.Head = next
	return moved
}

// Free frees the slots of the requests before Head.
func (q *SendQueue) Free() { q.ring.Release(q.Head) }

// Flush completes every request in the ring with WR_FLUSH_ERR, and reports whether there
// was one.
func (q *SendQueue) Flush(c *Completions) bool {
	i, end := q.ring.Consumer(), q.ring.Producer()
	if i == end {
		return false
	}
	for i != end {
		wrid, op := q.ring.At(i).WRID, q.ring.At(i).Op
		i = q.ring.Next(i)
		q.ring.Release(i) // before the completion can be seen
		c.SendFailed(wrid, op, queue.WRFlushErr, c.Flushed())
	}
	q.set(end)
	return true
}

// Drained ends the draining of the send queue: no message is under way any more
// (IBTA 10.3.1.5).
func (p *Port) Drained() {
	p.Attr.SQDraining = false
	p.Host.StateChanged(p, qp.SQD, reason.Detail{})
	if p.Attr.EnSQDNotify {
		p.Host.Event(p, EventSQDrained, reason.Detail{})
	}
}
