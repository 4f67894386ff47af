package responder

import (
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/psn"
	"softrdma/internal/rc/conn"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/ib/own"
)

// A wide is how much more than usual is held for a peer on a long path, which asks for it. It is a
// limit; memory is taken only for what is held.
type wide struct {
	span  uint32        // PSNs; 0 if the peer asks for nothing
	kept  uint32        // READs and atomics that are remembered, 0 if as many as agreed
	at    time.Duration // when it asked last
	asked bool          // it has asked, and so knows wide acknowledges
}

const (
	// wideTime is how long a share of the store is kept for a peer that does not ask for it.
	wideTime = 10 * time.Second

	// keepTime is how long more READs are remembered for it. That is longer, because a peer whose path is
	// interrupted asks again for those whose answers were lost.
	keepTime = 2 * time.Minute

	// sayTime is how long acknowledges say that. A peer relies on one for some seconds, which may be another one than
	// that which answers what it has asked.
	sayTime = keepTime / 2

	// keepShare is the length of a READ on a long path: one is remembered for so many bytes of the share.
	keepShare = 64 << 10

	// sweepTime is the time between two looks for such peers, which take time for each peer.
	sweepTime = time.Second
)

// Widen follows a request of a peer that would have more in flight. It gets an even share of what
// the store may hold.
func (o *reordering) Widen(now time.Duration, in *machine.In) {
	if o.store == nil || !o.c.Selective() || !o.c.Trusted || o.mtu == 0 {
		return
	}
	n := o.store.share(now, o)
	o.wide.at, o.wide.asked = now, true
	o.wide.span = uint32(min(max(n/int(o.mtu), int(conn.Span(o.mtu))), conn.MaxSpan))
	o.wide.kept = max(o.wide.kept, uint32(o.store.places(o))) // not less: the peer has sent some of them
	if in.AckReq {
		o.oweReport()
	}
}

// span is the number of PSNs from the expected one on of which requests are held.
func (o *reordering) span() uint32 { return max(o.wide.span, conn.Span(o.mtu)) }

// lag is how many spans a requester may be behind its responder. One span of requests is in flight at
// most. READs add their responses, of which a lost one stops those that follow it for some round trips.
const lag = 4

// Acknowledged reports whether the peer may believe a PSN to be the last one that was acknowledged: it is before the
// expected one, or before the end of the READ responses that are on their way, and no further than some spans.
func (o *reordering) Acknowledged(p psn.PSN) bool {
	most := lag * int(o.span())
	if d := o.expected.Sub(p); d > 0 && d <= most {
		return true
	}
	d := o.response.upTo.Sub(p)
	return o.response.sent && d > 0 && d <= most
}

// reportWide produces the acknowledge that says what is new, and how much is held.
func (o *reordering) reportWide(now time.Duration, out *machine.Out) {
	w := own.WideAck{Duplicates: o.sack.duplicates, Span: o.span()}
	if now <= o.wide.at+sayTime {
		w.Kept = o.wide.kept
	}
	var b []byte
	if o.held != nil {
		b, o.sack.due = o.held.ReportNews(w, o.expected)
	} else {
		b = w.Append(o.sack.short[:0])
	}
	o.header(out, ib.RCSelectiveAck, o.expected.Add(-1))
	out.Wide = true
	out.AETH = ib.AETH{Syndrome: o.creditCount(), MSN: o.msn}
	out.Pieces, out.Len = append(out.Pieces, b), len(b)
}

// narrow ends Widen. What is held far ahead stays, so acknowledges stay wide.
func (o *reordering) narrow() {
	if o.wide.span != 0 {
		o.wide.span = 0
		o.store.leave(o)
	}
}

// keepEnds is when more READs than usual are not remembered any more.
func (o *reordering) keepEnds() time.Duration {
	if o.wide.kept == 0 {
		return machine.Never
	}
	return o.wide.at + keepTime
}

// forget frees what was taken for a peer that has stopped asking, if no answer is owed that would be forgotten.
func (o *reordering) forget(now time.Duration) {
	if o.keepEnds() > now {
		return
	}
	o.narrow()
	n := max(conn.KeepFactor*int(o.p.Attr.MaxDestRdAtomic), 1)
	if o.history.owed() > n {
		o.wide.at = now - keepTime + sweepTime
		return
	}
	o.endKept()
	if len(o.history.ring) > n {
		o.history.resize(n)
	}
}

// endKept ends that more READs than usual are remembered.
func (o *reordering) endKept() {
	if o.wide.kept != 0 {
		o.wide.kept = 0
		remove(&o.store.kept, o)
	}
}

// share returns the bytes of copies that a responder may hold, if it and those that have asked
// lately share the store.
func (s *Store) share(now time.Duration, o *reordering) int {
	if o.wide.span == 0 {
		s.wide = append(s.wide, o)
	}
	if now-s.swept >= sweepTime {
		s.swept = now
		for i := len(s.wide) - 1; i >= 0; i-- {
			if x := s.wide[i]; x != o && now-x.wide.at > wideTime {
				x.narrow()
			}
		}
		for i := len(s.kept) - 1; i >= 0; i-- {
			if x := s.kept[i]; x != o && now-x.wide.at > keepTime+wideTime {
				x.endKept() // its queue pair is gone
			}
		}
	}
	return s.pool.Limit() / len(s.wide)
}

// places returns how many READs a responder may remember, if it and those that do share the store. What others were
// promised stays, so they all remember no more than as if they had asked at the same time.
func (s *Store) places(o *reordering) int {
	if o.wide.kept == 0 {
		s.kept = append(s.kept, o)
	}
	return max(min(s.pool.Limit()/len(s.kept)/keepShare, conn.MaxKept), 1)
}

// leave ends the part of a responder.
func (s *Store) leave(o *reordering) { remove(&s.wide, o) }

// remove removes a responder from a list.
func remove(list *[]*reordering, o *reordering) {
	l := *list
	for i, x := range l {
		if x == o {
			last := len(l) - 1
			l[i], l[last] = l[last], nil
			*list = l[:last]
			return
		}
	}
}
