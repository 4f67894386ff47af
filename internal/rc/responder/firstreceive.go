package responder

import (
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/wire/ib"
)

// The first message of a connection may arrive before the program has heard that the
// connection stands and has posted a receive. A peer with an RNR retry count of 0, which
// many programs set without knowing it, would give up at the first RNR NAK. So the
// responder waits with that NAK: it holds the message and what follows it, and looks for a
// receive until firstReceiveTime is over. The standard sets no limit to the time until an
// answer but the peer's acknowledgement timer, which is 67 ms in most programs and longer
// between connection managers. A later message without a receive gets its NAK at once.
const firstReceiveTime = 50 * time.Millisecond

// A firstReceive is the wait of a connection's first message for a receive.
type firstReceive struct {
	over bool          // a receive was taken, or the time has passed
	on   bool          // requests are held until a receive is posted
	end  time.Duration // when the time passes; 0 before the first look
	wait time.Duration // between two looks
	at   time.Duration // of the next look
}

// awaitReceive holds a request that finds no receive, if it belongs to the connection's
// first message, and reports whether it did.
func (r *Responder) awaitReceive(in *machine.In, info *ib.Info) bool {
	if r.first.over || r.p.RQ == nil {
		return false
	}
	r.first.on = true
	if in.Train > 1 {
		r.eachPart(in, info)
		return true
	}
	if r.hold(in, info, 0) {
		return true
	}
	r.endFirst() // there is no room
	return false
}

// ScheduleLook sets the time of the first look for a receive. It follows each request.
func (o *reordering) ScheduleLook(now time.Duration) {
	if f := &o.first; f.on && f.end == 0 {
		f.end, f.wait, f.at = now+firstReceiveTime, firstPoll, now+firstPoll
	}
}

// look takes what is held through the chain if a receive was posted or the time has
// passed.
func (r *Responder) look(now time.Duration) {
	f := &r.first
	if f.at > now {
		return
	}
	if now < f.end && r.p.RQ.Len() == 0 {
		f.wait = min(2*f.wait, lastPoll)
		f.at = min(now+f.wait, f.end)
		return
	}
	r.endFirst()
	// What is taken now was counted when it arrived. The next packet corrects the count of
	// what is not: the peer sends that again.
	var in machine.In
	r.resume(&in)
	r.counted += in.Dropped
	if r.nak.rnr || !r.c.Selective() {
		r.DropHeld() // the peer repeats everything behind a NAK
	}
}

// endFirst ends the wait for good: from now on a message without a receive is refused at once.
func (o *reordering) endFirst() { o.first = firstReceive{over: true, at: machine.Never} }
