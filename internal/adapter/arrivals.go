package adapter

import (
	"slices"
	"time"

	"softrdma/faults"
	"softrdma/internal/reason"
	"softrdma/internal/trace"
	"softrdma/internal/wire/ib"
)

// A hold is until when packets of a queue pair wait that have arrived.
type hold struct{ all, requests time.Duration }

// receives reports whether rules apply to packets that arrive. They come one at a time then, with all
// their bytes.
func (x *faultyLane) receives() bool { return x != nil && x.rules.OnReceived() }

// takes decides about a packet that has arrived, which is in the lane's In, before the machine sees it. It
// reports whether it has taken the packet; otherwise the caller continues with it.
func (x *faultyLane) takes(now time.Duration, b []byte) bool {
	if !x.receives() || x.again {
		return false
	}
	l := x.lane
	x.arriveDue(now)
	x.facts.Received, x.facts.Peer, x.facts.QPN = true, l.in.Src.Addr(), l.in.DestQPN
	x.facts.Read(b)
	v := x.rules.Packet(now, &x.facts)
	due := max(x.held(now, &v), now) + v.Delay
	if v.Behind > 0 {
		due = max(due, now+longestReorder)
	}
	if v.Hits == 0 && due <= now {
		x.overtaken(true)
		return false
	}
	if v.Hits > 0 {
		x.showArrival(b, &v)
	}
	if !v.Drop && !x.spoil(b, &v) {
		x.pass(now, due, b, &v)
	}
	x.overtaken(true)
	return true
}

// pass lets a packet arrive, now or when it is due, and twice if the rules say so.
func (x *faultyLane) pass(now, due time.Duration, b []byte, v *faults.Verdict) {
	in := x.lane.in
	in.Answer = ib.Syndrome(v.Answer)
	if v.Mark {
		in.TOS |= congested
	}
	c := &latePacket{packet: packet{data: b}, due: due, in: &in}
	if v.Behind > 0 {
		c.behind = v.Behind + 1 // the caller counts this packet as well
	}
	if due <= now {
		x.bytes += len(b)
		x.leave(c)
	} else if x.bytes+len(b) <= maxLate {
		c.data = slices.Clone(b)
		x.bytes += len(b)
		in.Payload, in.Lender = nil, nil // of the batch
		x.insert(c)
	}
	if v.Duplicate {
		x.bytes += len(b)
		x.leave(&latePacket{packet: packet{data: b}, in: &in})
	}
}

// spoil corrupts a packet, and reports whether its ICRC shows it, so that it is dropped.
func (x *faultyLane) spoil(b []byte, v *faults.Verdict) bool {
	if v.Corrupt == nil {
		return false
	}
	v.Change(part(b, v.Corrupt))
	if v.Corrupt.ICRC == "right" {
		return false
	}
	x.lane.drop(b, x.facts.QPN, reason.PacketICRC, 0, uint64(ib.ICRC(b)))
	return true
}

// held returns until when packets of the queue pair wait, after the verdict.
func (x *faultyLane) held(now time.Duration, v *faults.Verdict) time.Duration {
	qpn := x.facts.QPN
	h, ok := x.holds[qpn]
	if v.Stall > 0 || v.Slow > 0 {
		h.all, h.requests = max(h.all, now+v.Stall), max(h.requests, now+v.Slow)
		if x.lane.qps[qpn] != nil {
			x.holds[qpn] = h
		}
	} else if ok && max(h.all, h.requests) <= now {
		delete(x.holds, qpn)
	}
	if x.facts.Request() {
		return max(h.all, h.requests)
	}
	return h.all
}

// arriveDue lets packets arrive that have waited enough, before another one.
func (x *faultyLane) arriveDue(now time.Duration) {
	for i := 0; i < len(x.late) && x.late[i].due <= now; i++ {
		if c := x.late[i]; c.in != nil {
			x.late = slices.Delete(x.late, i, i+1)
			i--
			x.leave(c)
		}
	}
}

// arrive continues with a packet that was received before.
func (x *faultyLane) arrive(c *latePacket) {
	l := x.lane
	in, from, header := l.in, l.from, l.header
	l.in = *c.in
	if c.due > 0 {
		l.from, l.header = nil, nil // of another batch
	}
	x.again = true
	l.checked(l.dev.clock(), l.in.Parse(c.data), c.data)
	x.again = false
	l.in, l.from, l.header = in, from, header
	l.notifyForwarded()
}

// showArrival counts a hit of a packet that has arrived, and shows the trace the packet.
func (x *faultyLane) showArrival(b []byte, v *faults.Verdict) {
	e := hitEvent(x.facts.QPN, v.Hits, v.Rule)
	if x.lane.watch != nil {
		e.Fault = v.Where()
		e.Packet = x.lane.tracedArrival(b)
	}
	x.lane.dev.Trace.Inject(&e)
}

// hitEvent is the event of hits, of which rule has the first. Rules are counted from 1.
func hitEvent(qpn uint32, hits, rule int) trace.Event {
	return trace.Event{QPN: qpn, Detail: reason.Detail{Reason: reason.FaultInjected, Expected: uint64(hits), Found: uint64(rule + 1)}}
}
