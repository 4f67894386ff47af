package cm

import (
	"time"

	"softrdma/internal/wire/mad"
)

// An outbox has the datagrams that wait for Next.
type outbox struct {
	queue []pending
	sent  int // of queue
}

// A pending datagram waits for Next. Its bytes never change.
type pending struct {
	route Route
	mad   *[mad.Len]byte
	reply bool
}

func (b *outbox) put(p pending) { b.queue = append(b.queue, p) }

func (b *outbox) send(r *Route, d *[mad.Len]byte) { b.put(pending{route: *r, mad: d}) }

func (b *outbox) queued() int { return len(b.queue) - b.sent }

// Next fills out with the next datagram to send and reports whether there is one.
func (b *outbox) Next(_ time.Duration, out *Datagram) bool {
	if b.sent == len(b.queue) {
		return false
	}
	p := &b.queue[b.sent]
	out.Route, out.MAD, out.Reply = p.route, *p.mad, p.reply
	*p = pending{}
	b.sent++
	if b.sent == len(b.queue) {
		b.queue, b.sent = b.queue[:0], 0
		if cap(b.queue) > keptQueue {
			b.queue = nil
		}
	}
	return true
}

// keptQueue limits the memory of an empty queue that is kept.
const keptQueue = 1024
