package adapter

import (
	"time"

	"softrdma/internal/frame"
	"softrdma/internal/machine"
	"softrdma/internal/object"
	"softrdma/internal/wire/ib"
)

// A route is where the packets of a flow go that are for one lane of its peer: to the network,
// to a lane of this process, or into the memory of a peer on this host. A flow keeps its routes
// until something changes that they depend on (reroute); no packet looks for one.
//
// A route may wrap another one, in order to watch, drop, delay, repeat or change packets. A wrapper
// embeds the other route. It takes one packet at a time: Prepare sets machine.Out.Longest to 0, and
// Send is sendWhole, which gives Put the packet as it is on a network. Put passes on what is to
// leave. A wrapper that may lose packets clears machine.Out.Lossless, and one that keeps a packet
// for later copies its bytes, and calls Stamp again before Put.
type route interface {
	// Path says where the packets go.
	Path() object.Path

	// Prepare sets what the machine of q may make before its next turn: Longest, Whole and
	// Lossless of o.
	Prepare(q *QP, o *machine.Out)

	// Admit reports whether there is room for a packet or train of q. If not, q gets a turn
	// when there is.
	Admit(now time.Duration, q *QP) bool

	// Send sends the packet or train o of q, and up to limit packets in all if q's machine
	// has short messages that follow it. It returns how many it sent; a train that arrives
	// as a whole counts as one.
	Send(now time.Duration, q *QP, f *txFlow, o *machine.Out, class frame.Class, limit int) int

	// Stamp gives a packet the number and the ICRC with which it leaves if Put is called next.
	Stamp(p *packet)

	// Put sends a packet. Its bytes are the caller's again when Put returns.
	Put(p *packet)
}

// A packet is a packet of a queue pair as it is on a network.
type packet struct {
	q      *QP
	flow   *txFlow
	class  frame.Class
	dest   uint32 // queue pair number
	id     uint16 // IPv4 identification, which the ICRC covers
	header []byte // of the frame
	data   []byte // from BTH to ICRC
}

// whole makes the packet o as it is on a network, with zeros for the ICRC. It is valid until the
// next call.
func (l *lane) whole(q *QP, f *txFlow, o *machine.Out, class frame.Class) *packet {
	p := &l.built
	var h [ib.MaxHeaderLen]byte
	b := append(p.data[:0], h[:o.PutHeaders(h[:])]...)
	for _, x := range o.Pieces {
		b = append(b, x...)
	}
	b = append(b, make([]byte, int(o.Pad)+ib.ICRCLen)...)
	if f.Class != class {
		l.net.Classify(f.Flow, class)
	}
	*p = packet{q: q, flow: f, class: class, dest: o.DestQPN, header: f.Header(len(b)), data: b}
	return p
}

// stamp sets the packet's number and ICRC.
func (p *packet) stamp(id uint16) {
	p.id = id
	ib.PutICRC(p.data[len(p.data)-ib.ICRCLen:], p.flow.CRC.Sum(id, p.data))
}

// sendWhole sends a packet of q on a route as it is on a network.
func sendWhole(r route, q *QP, f *txFlow, o *machine.Out, class frame.Class) int {
	p := q.lane.whole(q, f, o, class)
	r.Stamp(p)
	r.Put(p)
	return 1
}

// partOf makes packet i of a train of q in l.part.
func (l *lane) partOf(q *QP, o *machine.Out, i int) *machine.Out {
	o.Part(i, q.Attr.PathMTU, &l.part)
	l.part.Pad = ib.PadLen(l.part.Len)
	return &l.part
}

// route returns the route of a connection. Datagrams have one each; for a queue pair of those it
// returns the network, which limits how many may leave.
func (q *QP) route() route {
	l := q.lane
	if b := l.dev.cfg.Loopback; b != nil && b.changes.Load() != l.seen {
		l.reroute()
	}
	if q.flow == nil {
		return &l.network
	}
	return l.routeOf(q.flow, q.Attr.DestQPN)
}

// routeOf returns the route of packets on a flow to a queue pair.
func (l *lane) routeOf(f *txFlow, qpn uint32) route {
	if qpn == multicastQPN {
		return l.outside(f, qpn)
	}
	r := &f.routes[frame.LaneOf(qpn, len(f.routes))]
	if *r == nil {
		*r = l.choose(f, qpn, nil)
	}
	return *r
}

// choose chooses a route. s is the search for a path through memory that was begun, if any.
func (l *lane) choose(f *txFlow, qpn uint32, s *search) route {
	if d := l.neighbor(f); d != nil {
		if to := d.laneOf(qpn); to != nil {
			return l.tapped(to.tappedArrivals(&processRoute{&l.process, to}))
		}
	}
	if p := l.host.Find(f.Peer, qpn); p != nil {
		return l.tapped(&hostRoute{&l.hostmem, p.To(qpn)})
	}
	r := l.outside(f, qpn)
	if !l.searches(f) {
		return r
	}
	if s == nil {
		s = &search{lane: l, peer: f.Peer, qpn: qpn}
	}
	s.route = r
	return s
}

// outside returns the route of packets that no path through memory leads to.
func (l *lane) outside(f *txFlow, qpn uint32) route {
	if f.offline || l.dev.cfg.MemoryOnly && qpn != multicastQPN {
		return unreached{&l.network}
	}
	return l.wired
}

// reroute chooses all routes again: a device of this process was opened or closed, a channel to a
// peer was attached or detached, the device's address has changed, or a trace has begun or ended.
func (l *lane) reroute() {
	if b := l.dev.cfg.Loopback; b != nil {
		l.seen = b.changes.Load()
	}
	l.watch = nil
	if l.dev.Trace.On() {
		l.watch = l.dev.Trace
	}
	if l.net == nil {
		return
	}
	l.network.flush() // before what takes another route
	l.wired = l.tapped(&l.network)
	for _, f := range l.flows {
		l.layOut(f)
	}
}

// layOut prepares the flow's table of routes, one for each lane of the peer's address. Searches go
// on.
func (l *lane) layOut(f *txFlow) {
	if n := l.lanesOf(f); n != len(f.routes) {
		f.routes = make([]route, n)
		return
	}
	for i, r := range f.routes {
		f.routes[i] = nil
		if s, ok := r.(*search); ok {
			f.routes[i] = l.choose(f, s.qpn, s)
		}
	}
}

// lanesOf returns the number of lanes of the peer's address; where none is known, that of the
// device's own.
func (l *lane) lanesOf(f *txFlow) int {
	if d := l.neighbor(f); d != nil {
		return d.cfg.Share.Of
	}
	if s := l.host.Share(f.Peer); s.Of > 0 {
		return s.Of
	}
	return l.dev.cfg.Share.Of
}
