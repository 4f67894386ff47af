package cm

import (
	"encoding/binary"
	"net/netip"
	"time"

	"softrdma/internal/reason"
	"softrdma/internal/wire/mad"
)

// A request costs its sender one datagram, whose source may be forged. So as
// soon as requests come faster than their senders confirm connections, a
// request waits here, unknown to the program, until its sender has shown that it
// receives what is sent to its address.
//
// The messages of connection establishment have no room for a cookie: a REP
// holds what only the program can tell, and the RTU repeats nothing of the REQ.
// But a DREQ for a connection that does not exist is answered at once by a DREP
// with the same communication IDs and transaction ID (Linux does so, and
// receiveDREQ), which leaves a connection that is being established alone. A
// DREQ with IDs that cannot be guessed is the challenge, and its DREP the proof.
const (
	// trustBurst requests of senders that have proved nothing are taken without
	// a challenge, and one more in trustEvery; a sender's RTU gives its one back.
	trustBurst = 16
	trustEvery = time.Second

	// doubtTime is for how long every request is challenged after a sign of
	// forgery: a challenge, or an unproven sender's REP, that nobody answered.
	doubtTime = 30 * time.Second

	// maxParked bounds the requests that wait for the answer to a challenge, and
	// parkTime for how long they do. At 50,000 requests a second the first bound
	// leaves a third of a second for the answer.
	maxParked = 1 << 14
	parkTime  = time.Second

	// maxQueued bounds the requests of proven senders that wait for room,
	// maxQueuedShare those of one source, and queueTime for how long they do:
	// after about as long their senders repeat them. Where there are maxQueued,
	// sources with less than fewQueued may have more, up to twice as many in all.
	maxQueued      = 4096
	maxQueuedShare = 1024
	fewQueued      = 4
	queueTime      = 4 * time.Second

	// sweepTime is how often what waits is looked at.
	sweepTime = 100 * time.Millisecond
)

// A parked request waits for its sender's proof, or with it for room.
type parked struct {
	at   time.Duration
	from netip.AddrPort
	tid  uint64 // of the challenge; 0: the request is gone
	id   uint32 // the same
	tos  uint8
	mad  [mad.Len]byte
}

// A lot holds requests that no connection was made of yet.
type lot struct {
	m     *Manager
	timer timer

	trust bucket        // for requests of unproven senders
	again bucket        // for those that were repeated
	doubt time.Duration // none are taken until then

	ring  []parked // unproven, by the lowest bits of their id
	next  int      // the next place to use, where the ring has its full length
	asked *askedTable

	queues map[netip.Addr]*sourceQueue // of proven senders
	turns  []*sourceQueue              // the same: the first is the next to be served
	queued int
	retry  bool // a connection is half open no longer since the queues were served
}

// A sourceQueue has the requests of one source, oldest first.
type sourceQueue struct {
	source netip.Addr
	list   []parked
}

func (t *lot) init(m *Manager) {
	t.m = m
	t.timer.owner = t
	t.trust, t.again = newBucket(trustBurst, trustEvery), newBucket(againBurst, againEvery)
	t.queues = map[netip.Addr]*sourceQueue{}
}

// suspect makes every request be challenged for a while.
func (t *lot) suspect(now time.Duration) { t.doubt = now + doubtTime }

// trusts reports whether the sender of the request that is being received needs
// no challenge.
func (t *lot) trusts(now time.Duration, k remoteKey) bool {
	if now >= t.doubt && t.trust.take(now) {
		return true
	}
	if t.asked == nil {
		t.asked = new(askedTable)
	}
	return t.asked.again(now, k) && t.again.take(now)
}

// park keeps the request that is being received, and challenges its sender.
func (t *lot) park(now time.Duration) {
	r := &t.m.received
	i := len(t.ring)
	if i < maxParked {
		t.ring = append(t.ring, parked{})
	} else {
		i = t.next
		t.next = (i + 1) % maxParked
		t.lose(now, &t.ring[i])
	}
	p := &t.ring[i]
	*p = parked{
		at: now, from: r.from, tos: r.tos, mad: *r.datagram,
		// A transaction ID of 0 would be a place that is free, and a
		// communication ID of 0 that of a peer that waits for its REP.
		tid: uint64(t.m.config.Random())<<32 | uint64(t.m.config.Random()) | 1<<63,
		id:  t.m.config.Random()&^(maxParked-1) | uint32(i) | 1<<31,
	}
	t.m.refuse(reason.CMChallenge, trustBurst, low(r.from.Addr()))
	if at := now + sweepTime; t.timer.place == 0 || t.timer.at > at {
		t.m.timers.set(&t.timer, at)
	}
	// REQ and SIDR_REQ have their sender's ID in the same place.
	q := mad.DREQ{LocalID: p.id, RemoteID: binary.BigEndian.Uint32(p.mad[mad.HeaderLen:])}
	d := t.m.message(mad.AttrDREQ, p.tid)
	q.Put(d)
	t.m.reply(d)
}

// lose drops a request whose challenge was not answered.
func (t *lot) lose(now time.Duration, p *parked) {
	if p.tid != 0 {
		t.suspect(now)
		t.m.refuse(reason.CMUnproven, uint64(parkTime.Milliseconds()), uint64((now - p.at).Milliseconds()))
		p.tid = 0
	}
}

// answered takes the DREP that is being received, and reports whether it answers
// a challenge.
func (t *lot) answered(now time.Duration, a *mad.DREP) bool {
	i := int(a.RemoteID & (maxParked - 1))
	if i >= len(t.ring) {
		return false
	}
	p, r := &t.ring[i], &t.m.received
	if p.tid == 0 || p.tid != r.header.TID || p.id != a.RemoteID || home(p.from).Addr() != home(r.from).Addr() {
		return false
	}
	was := *p
	p.tid = 0
	t.queue(now, &was)
	return true
}

// queue appends a request of a proven sender to its source's queue.
func (t *lot) queue(now time.Duration, p *parked) {
	s := sourceOf(p.from)
	q := t.queues[s]
	if q == nil {
		q = &sourceQueue{source: s}
		t.queues[s] = q
		t.turns = append(t.turns, q)
	}
	share, all := maxQueuedShare, 2*maxQueued
	if t.queued >= maxQueued {
		share = fewQueued
	}
	if len(q.list) >= share || t.queued >= all {
		t.m.refuse(reason.CMShare, uint64(share), uint64(len(q.list))+1)
		if len(q.list) == 0 {
			t.end(len(t.turns) - 1)
		}
		return
	}
	p.at = now
	q.list = append(q.list, *p)
	t.queued++
	t.retry = true
}

// end removes a queue that is empty.
func (t *lot) end(i int) {
	delete(t.queues, t.turns[i].source)
	t.turns = append(t.turns[:i], t.turns[i+1:]...)
}

// serve takes requests of proven senders for which there is room, source by
// source.
func (t *lot) serve(now time.Duration) {
	t.retry = false
	for idle := 0; idle < len(t.turns); {
		q := t.turns[0]
		t.turns = append(t.turns[1:], q)
		for len(q.list) > 0 && now-q.list[0].at >= queueTime {
			t.m.refuse(reason.CMShare, maxShare, uint64(len(q.list)))
			t.pop(q)
		}
		if len(q.list) > 0 {
			if t.m.admitParked(now, &q.list[0]) {
				t.pop(q)
				idle = 0
			} else {
				idle++
			}
		}
		if len(q.list) == 0 {
			t.end(len(t.turns) - 1)
		}
	}
}

func (t *lot) pop(q *sourceQueue) {
	q.list[0] = parked{}
	q.list = q.list[1:]
	t.queued--
}

// expire drops what has waited for too long, gives memory back that a flood took,
// and serves the queues.
func (t *lot) expire(now time.Duration) {
	left := false
	for i := range t.ring {
		p := &t.ring[i]
		if now-p.at >= parkTime {
			t.lose(now, p)
		}
		left = left || p.tid != 0
	}
	if !left {
		t.ring, t.next = nil, 0
	}
	t.serve(now)
	if t.asked != nil && now-t.asked.last >= askedTime {
		t.asked = nil
	}
	switch {
	case t.ring != nil || t.queued > 0:
		t.m.timers.set(&t.timer, now+sweepTime)
	case t.asked != nil:
		t.m.timers.set(&t.timer, t.asked.last+askedTime)
	default:
		t.m.timers.stop(&t.timer)
	}
}
