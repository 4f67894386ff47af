package hosts

import (
	"math/rand/v2"
	"net/netip"

	"softrdma/internal/eventqueue"
	"softrdma/internal/fabric/dcb"
	"softrdma/internal/fabric/station"
	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/rc"
	"softrdma/internal/reason"
	"softrdma/internal/trace"
	"softrdma/internal/wire/ethernet"
	"softrdma/internal/wire/ib"
)

// A part is what the hosts of a part of the network share. One goroutine at a time works on it.
type part struct {
	h        *Hosts
	memory   *memory.Table
	region   *memory.Region // with the same key in all parts
	in       machine.In
	out      machine.Out
	done     []done
	closing  []*end // that are to be closed after the step
	traffic  trace.Traffic
	repeated uint64
	reasons  map[reason.Reason]uint64
	drops    map[reason.Reason]uint64

	_ [64]byte // parts of different processors share no cache line
}

// newPart makes a part with a random key for its region.
func newPart(h *Hosts, random *rand.Rand) (*part, error) {
	p := &part{h: h, memory: memory.NewTable(), reasons: map[reason.Reason]uint64{}, drops: map[reason.Reason]uint64{}}
	p.memory.Random = random.Uint32
	var err error
	p.region, err = p.memory.RegisterVoid(protection, machine.MaxMessage, 0, qp.LocalWrite|qp.RemoteWrite)
	return p, err
}

// A host is the port of a host, its queue pairs with a deadline, and those that may have something to
// send.
type host struct {
	part    *part
	node    int
	port    *station.Port
	address netip.Addr
	store   *rc.Store // nil before the first connection
	due     eventqueue.Deadlines[dcb.Time]
	alarm   dcb.Time // of the network's timer
	ends    []*end   // by timer
	spare   []int    // timers
	halted  dcb.Time // since when it takes nothing
	resumed dcb.Time // and until when
	waiting uint8    // priorities that have turns
	ready   [ethernet.Priorities]turns
}

// timer returns an unused timer for a queue pair.
func (x *host) timer(e *end) int {
	if n := len(x.spare); n > 0 {
		t := x.spare[n-1]
		x.spare = x.spare[:n-1]
		x.ends[t] = e
		return t
	}
	x.ends = append(x.ends, e)
	return x.due.Add(1)
}

// watch sets the network's timer to the first deadline.
func (x *host) watch() {
	_, at, ok := x.due.Next()
	if !ok {
		at = dcb.Never
	}
	if at != x.alarm {
		x.alarm = at
		x.part.h.net.SetTimer(x.node, at)
	}
}

// deliver hands a frame over to its queue pair.
func (p *part) deliver(now dcb.Time, x *host, f *dcb.Frame) {
	k := f.Content.(*packet)
	e := k.to
	if e.closed || e.host != x {
		return
	}
	in := &p.in
	k.get(in)
	in.Src, in.Dst = e.peer.local, e.local
	in.TOS, in.TTL = f.DSCP<<2|f.ECN, f.Hops
	in.Hops = nil
	if f.Telemetry != nil {
		in.Hops = f.Telemetry.Hops[:f.Telemetry.Count]
	}
	t := clock(now)
	if e.q.Continue(t, in) {
		machine.Continued(&p.traffic, &e.port, in)
	} else {
		machine.Deliver(&p.traffic, &e.port, t, e.q, in)
	}
	e.enqueue()
	e.arm(now)
	p.serve(now, x)
}

// serve lets the queue pairs of a host send, and reports what has been completed.
func (p *part) serve(now dcb.Time, x *host) {
	p.pump(now, x)
	if len(p.done) > 0 {
		p.report(now)
	}
}

// pump sends packets of a host's queue pairs in turn, while the port has room.
func (p *part) pump(now dcb.Time, x *host) {
	for i := uint8(0); x.waiting>>i != 0; i++ {
		for r := &x.ready[i]; r.first != nil && x.port.Room(i); {
			if e := r.pop(); p.send(now, e) {
				e.enqueue()
			}
		}
		if x.ready[i].first == nil {
			x.waiting &^= 1 << i
		}
	}
}

// send sends the next packet of a queue pair, and reports whether there was one.
func (p *part) send(now dcb.Time, e *end) bool {
	if e.closed {
		return false
	}
	out := &p.out
	sent := e.q.Next(clock(now), out)
	e.arm(now)
	if !sent {
		return false
	}
	p.traffic.SentPackets++
	net := p.h.net
	f := net.PoolOf(e.host.node).Frame()
	k := packetOf(f)
	k.set(out, e.peer)
	net.Address(f, e.host.node, e.peer.host.node, e.local.Port())
	f.Len = int32(FrameLen(out.Opcode, out.Len))
	f.Priority, f.DSCP, f.ECN = e.priority, e.priority<<3, dcb.NotECT
	if out.Opcode.Info().Kind == ib.KindWrite {
		p.count(e, out)
	}
	if out.Telemetry {
		f.Telemetry = k.telemetry()
	}
	if out.Markable {
		f.ECN = dcb.ECT0
	}
	net.Send(now, e.host.node, f)
	out.Markable = false
	return true
}

// count counts a packet of a message.
func (p *part) count(e *end, out *machine.Out) {
	p.traffic.Sent += uint64(out.Len)
	if out.PSN.After(e.high) {
		e.high = out.PSN
	} else {
		p.repeated += uint64(out.Len)
	}
}

// report tells the handler what has been completed. It may post and close.
func (p *part) report(now dcb.Time) {
	for i := 0; i < len(p.done); i++ {
		switch d := p.done[i]; {
		case d.end.closed:
		case d.status != queue.Success:
			p.h.handler.Failed(now, d.end.conn, d.why)
		case d.received:
			p.h.handler.Received(now, d.end.conn, uint32(d.id))
		default:
			p.h.handler.Sent(now, d.end.conn, d.id)
		}
	}
	p.done = p.done[:0]
}

// Event implements machine.Host.
func (p *part) Event(*machine.Port, machine.Event, reason.Detail) {}

// Refuse implements machine.Host.
func (p *part) Refuse(_ *machine.Port, d reason.Detail) { p.reasons[d.Reason]++ }

// StateChanged implements machine.Host.
func (p *part) StateChanged(_ *machine.Port, _ qp.State, d reason.Detail) {
	if d.Reason != reason.None {
		p.reasons[d.Reason]++
	}
}
