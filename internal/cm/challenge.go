package cm

import (
	"encoding/binary"
	"net/netip"
	"time"

	"softrdma/internal/reason"
	"softrdma/internal/wire/mad"
)

// A request costs its sender one datagram, and the source address may be forged.
// When requests arrive faster than their senders confirm connections, each further
// request waits here until its sender has shown that it receives what is sent to
// its address. The program does not see the request before that.
//
// The messages of connection establishment have no room for a cookie: a REP needs
// data from the program, and the RTU repeats nothing of the REQ. But a peer answers
// a DREQ for a connection that it does not have at once, with a DREP that repeats
// the communication IDs and the transaction ID (Linux does, and so does
// receiveDREQ). The exchange does not affect a connection that is being
// established. So the challenge is a DREQ with IDs that cannot be guessed, and the
// DREP is the proof.
const (
	// trustBurst requests of unproven senders are accepted without a challenge,
	// plus one per trustEvery. The sender's RTU returns its token.
	trustBurst = 16
	trustEvery = time.Second

	// suspectTime is how long every request is challenged after a sign of forgery:
	// an unanswered challenge, or an unanswered REP to an unproven sender.
	suspectTime = 30 * time.Second

	// maxChallenged limits how many requests wait for the answer to a challenge,
	// and challengeTime how long. At 50,000 requests a second the first limit
	// leaves a third of a second for the answer.
	maxChallenged = 1 << 14
	challengeTime = time.Second

	// maxQueued limits the requests of proven senders that wait for room,
	// maxQueuedShare those of one source, and queueTime how long they wait: senders
	// repeat a request after about that time. When maxQueued is reached, a source
	// with fewer than fewQueued requests may still add some, up to twice maxQueued
	// in all.
	maxQueued      = 4096
	maxQueuedShare = 1024
	fewQueued      = 4
	queueTime      = 4 * time.Second

	// sweepTime is the interval at which waiting requests are checked for expiry.
	sweepTime = 100 * time.Millisecond
)

// A waitingRequest waits for its sender's proof or, once proven, for room.
type waitingRequest struct {
	at   time.Duration
	back Route
	tid  uint64 // transaction ID of the challenge; 0 marks a free entry
	id   uint32 // communication ID of the challenge
	mad  [mad.Len]byte
}

// A screening decides which requests need proof of their source address. It holds
// requests for which no connection exists yet.
type screening struct {
	m     *Manager
	timer timer

	trust        bucket        // tokens for first requests of unproven senders
	again        bucket        // tokens for repeated requests of senders that do not answer DREQs
	suspectUntil time.Duration // every request is challenged until then

	ring  []waitingRequest // unproven requests, indexed by the lowest bits of their id
	next  int              // the next entry to overwrite once the ring is full
	asked *askedTable

	queues map[netip.AddrPort]*sourceQueue // requests of proven senders
	turns  []*sourceQueue                  // the same queues in the order in which they are served
	queued int
	retry  bool // a half-open connection has ended since the queues were served
}

// A sourceQueue holds the requests of one source, oldest first.
type sourceQueue struct {
	source netip.AddrPort
	list   []waitingRequest
}

func (t *screening) init(m *Manager) {
	t.m = m
	t.timer.owner = t
	t.trust, t.again = newBucket(trustBurst, trustEvery), newBucket(againBurst, againEvery)
	t.queues = map[netip.AddrPort]*sourceQueue{}
}

// suspect makes every request be challenged for suspectTime.
func (t *screening) suspect(now time.Duration) { t.suspectUntil = now + suspectTime }

// trusts reports whether the sender of the request that is being received needs
// no challenge.
func (t *screening) trusts(now time.Duration, k remoteKey) bool {
	if now >= t.suspectUntil && t.trust.take(now) {
		return true
	}
	if t.asked == nil {
		t.asked = new(askedTable)
	}
	return t.asked.again(now, k) && t.again.take(now)
}

// challenge stores the request that is being received and challenges its sender.
func (t *screening) challenge(now time.Duration) {
	r := &t.m.received
	i := len(t.ring)
	if i < maxChallenged {
		t.ring = append(t.ring, waitingRequest{})
	} else {
		i = t.next
		t.next = (i + 1) % maxChallenged
		t.drop(now, &t.ring[i])
	}
	p := &t.ring[i]
	*p = waitingRequest{
		at: now, back: r.back, mad: *r.datagram,
		// The transaction ID must not be 0, which marks a free entry. Nor may the
		// communication ID, which is 0 at a peer that waits for its REP.
		tid: uint64(t.m.config.Random())<<32 | uint64(t.m.config.Random()) | 1<<63,
		id:  t.m.config.Random()&^(maxChallenged-1) | uint32(i) | 1<<31,
	}
	t.m.refuse(reason.CMChallenge, trustBurst, t.m.number(r.from()))
	if at := now + sweepTime; t.timer.place == 0 || t.timer.at > at {
		t.m.timers.set(&t.timer, at)
	}
	// REQ and SIDR_REQ have the sender's ID at the same offset.
	q := mad.DREQ{LocalID: p.id, RemoteID: binary.BigEndian.Uint32(p.mad[mad.HeaderLen:])}
	d := t.m.message(mad.AttrDREQ, p.tid, &q)
	t.m.reply(d)
}

// drop discards a request whose challenge was not answered.
func (t *screening) drop(now time.Duration, p *waitingRequest) {
	if p.tid != 0 {
		t.suspect(now)
		t.m.refuse(reason.CMUnproven, uint64(challengeTime.Milliseconds()), uint64((now - p.at).Milliseconds()))
		p.tid = 0
	}
}

// answered handles the DREP that is being received and reports whether it answers a
// challenge.
func (t *screening) answered(now time.Duration, a *mad.DREP) bool {
	i := int(a.RemoteID & (maxChallenged - 1))
	if i >= len(t.ring) {
		return false
	}
	p, r := &t.ring[i], &t.m.received
	if p.tid == 0 || p.tid != r.header.TID || p.id != a.RemoteID || !t.m.same(p.back.Path.Dst, r.from()) {
		return false
	}
	was := *p
	p.tid = 0
	t.queue(now, &was)
	return true
}

// queue appends a request of a proven sender to its source's queue.
func (t *screening) queue(now time.Duration, p *waitingRequest) {
	s := t.m.sourceOf(p.back.Path.Dst)
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

// end removes an empty queue.
func (t *screening) end(i int) {
	delete(t.queues, t.turns[i].source)
	t.turns = append(t.turns[:i], t.turns[i+1:]...)
}

// serve admits requests of proven senders while there is room, in turn by source.
func (t *screening) serve(now time.Duration) {
	t.retry = false
	for idle := 0; idle < len(t.turns); {
		q := t.turns[0]
		t.turns = append(t.turns[1:], q)
		for len(q.list) > 0 && now-q.list[0].at >= queueTime {
			t.m.refuse(reason.CMShare, maxShare, uint64(len(q.list)))
			t.pop(q)
		}
		if len(q.list) > 0 {
			if t.m.admitWaiting(now, &q.list[0]) {
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

func (t *screening) pop(q *sourceQueue) {
	q.list[0] = waitingRequest{}
	q.list = q.list[1:]
	t.queued--
}

// expire drops requests that have waited too long, frees memory that was only needed for a
// flood, and serves the queues.
func (t *screening) expire(now time.Duration) {
	left := false
	for i := range t.ring {
		p := &t.ring[i]
		if now-p.at >= challengeTime {
			t.drop(now, p)
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
