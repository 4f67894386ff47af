package adapter

import (
	"time"

	"softrdma/internal/frame"
	"softrdma/internal/machine"
	"softrdma/internal/object"
	"softrdma/internal/qp"
	"softrdma/internal/steering"
	"softrdma/internal/wire/ib"
)

// A route is where the packets of a flow go that are for one lane of its peer: to the network,
// to a lane of this process, or into the memory of a peer on this host. A flow keeps its routes
// until something changes that they depend on (flowTable.reroute); no packet looks for one.
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
func (l *packetLane) whole(q *QP, f *txFlow, o *machine.Out, class frame.Class) *packet {
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
	p := q.packets.whole(q, f, o, class)
	r.Stamp(p)
	r.Put(p)
	return 1
}

// partOf makes packet i of a train of q in l.part.
func (l *packetLane) partOf(q *QP, o *machine.Out, i int) *machine.Out {
	o.Part(i, q.Attr.PathMTU, &l.part)
	l.part.Pad = ib.PadLen(l.part.Len)
	return &l.part
}

// route returns the route of a connection. Datagrams have one each; for a queue pair of those it
// returns the network, which limits how many may leave.
func (q *QP) route() route {
	l := q.packets
	if b := l.dev.cfg.Loopback; b != nil && b.changes.Load() != l.flows.seen {
		l.flows.reroute()
	}
	if q.flow == nil {
		return &l.network
	}
	return l.flows.route(q.flow, q.Attr.DestQPN)
}

// route returns the route of packets on a flow to a queue pair.
func (t *flowTable) route(f *txFlow, qpn uint32) route {
	if qpn == multicastQPN {
		return t.outside(f, qpn)
	}
	r := &f.routes[0]
	if n := len(f.routes); n > 1 {
		r = &f.routes[steering.LaneOf(qpn, n)]
	}
	if *r == nil {
		*r = t.choose(f, qpn, nil)
	}
	return *r
}

// choose chooses a route. s is the search for a path through memory that was begun, if any.
func (t *flowTable) choose(f *txFlow, qpn uint32, s *search) route {
	l := t.lane
	if d := t.neighbor(f); d != nil {
		if to := d.packetLane(qpn); to != nil {
			return t.faulty(l.tapped(to.tappedArrivals(&processRoute{&l.process, to})))
		}
	}
	if p := l.host.Find(f.Peer, qpn); p != nil {
		return t.faulty(l.tapped(&hostRoute{&l.hostItem, p.To(qpn)}))
	}
	r := t.outside(f, qpn)
	if !t.searches(f) {
		return r
	}
	if s == nil {
		s = &search{lane: l, peer: f.Peer, qpn: qpn}
	}
	s.route = r
	return s
}

// outside returns the route of packets that no path through memory leads to.
func (t *flowTable) outside(f *txFlow, qpn uint32) route {
	if f.offline || t.lane.dev.cfg.MemoryOnly && qpn != multicastQPN {
		return unreached{&t.lane.network}
	}
	return t.wired
}

// searches reports whether datagrams on a flow without a path through memory look for one.
func (t *flowTable) searches(f *txFlow) bool {
	d := t.lane.dev
	own, peer := d.share, t.lane.host.Share(f.Peer)
	return d.cfg.Reach != nil && (d.cfg.MemoryOnly || peer.Of > peer.Lanes || own.Of > own.Lanes)
}

// neighbor returns the device of this process that a flow leads to, nil if there is none.
func (t *flowTable) neighbor(f *txFlow) *Device {
	l := t.lane
	b := l.dev.cfg.Loopback
	if b == nil {
		return nil
	}
	return b.find(place{l.net.Kind(), qp.InZone(f.Peer, l.net.Local())})
}

// reroute chooses all routes again: a device of this process was opened or closed, a channel to a
// peer was attached or detached, the device's address has changed, a trace has begun or ended, or rules of faults have changed.
func (t *flowTable) reroute() {
	if b := t.lane.dev.cfg.Loopback; b != nil {
		t.seen = b.changes.Load()
	}
	t.lane.network.flush() // before what takes another route
	t.wired = t.faulty(t.lane.tapped(&t.lane.network))
	for _, f := range t.open {
		t.layOut(f)
	}
}

// layOut prepares the flow's table of routes, one for each lane of the peer's address. Searches
// continue.
func (t *flowTable) layOut(f *txFlow) {
	if n := t.lanesOf(f); n != len(f.routes) {
		f.routes = make([]route, n)
		return
	}
	for i, r := range f.routes {
		f.routes[i] = nil
		if s, ok := r.(*search); ok {
			f.routes[i] = t.choose(f, s.qpn, s)
		}
	}
}

// lanesOf returns the number of lanes of the peer's address; where none is known, that of the
// device's own.
func (t *flowTable) lanesOf(f *txFlow) int {
	if d := t.neighbor(f); d != nil {
		return d.share.Of
	}
	if s := t.lane.host.Share(f.Peer); s.Of > 0 {
		return s.Of
	}
	return t.lane.dev.share.Of
}
