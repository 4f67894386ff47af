package lan

import (
	"net/netip"
	"slices"

	"softrdma/internal/fabric/bridge"
	"softrdma/internal/fabric/dcb"
	"softrdma/internal/reason"
	"softrdma/internal/topology"
)

// A Trunk is the other end of a cable that leads out of the network, from a switch. It is called from
// within Run.
type Trunk interface {
	// Send gets a frame that leaves the port. It keeps nothing of it. It may call Trunks.Hold.
	Send(f *dcb.Frame)

	// Changed tells that the cable was taken away or put back.
	Changed()

	// String names what the trunk leads to.
	String() string
}

// Trunks are the trunks of a network of one part. A network has none before the first call of
// Network.Trunks, and pays for none.
//
// Frames between a network and the one at the other end are routed: each switch has a route to the hosts
// there, by the first trunk whose link is up, or by its own trunks if it has some.
type Trunks struct {
	net  *Network
	list []*joint // in the order of Plug
	at   map[*end]*joint
}

// A joint is a trunk at its port.
type joint struct {
	Trunk
	end  *end
	up   bool
	far  Far
	hops map[int][]bridge.Hop
}

// A Far is the network at the other end of a trunk.
type Far struct {
	Prefix netip.Prefix // of the hosts there
	Switch dcb.Address  // of the switch at the trunk
}

// Trunks returns the network's trunks.
func (n *Network) Trunks() *Trunks {
	if n.trunks == nil {
		n.trunks = &Trunks{net: n, at: make(map[*end]*joint)}
	}
	return n.trunks
}

// Plug plugs a trunk into a port of a switch that has no cable.
func (x *Trunks) Plug(at topology.End, t Trunk) {
	j := &joint{Trunk: t, end: x.net.end(at)}
	x.at[j.end] = j
	x.list = append(x.list, j)
	j.end.node.sw.Block(at.Port, true)
}

// At returns the trunk of a port, nil if it has none.
func (x *Trunks) At(at topology.End) Trunk {
	if j := x.at[x.net.end(at)]; j != nil {
		return j.Trunk
	}
	return nil
}

// Join brings the link of a trunk's port up.
func (x *Trunks) Join(now dcb.Time, at topology.End, f Far) { x.set(now, at, f, true) }

// Leave takes the link of a trunk's port down.
func (x *Trunks) Leave(now dcb.Time, at topology.End) { x.set(now, at, Far{}, false) }

func (x *Trunks) set(now dcb.Time, at topology.End, f Far, up bool) {
	j := x.at[x.net.end(at)]
	p := j.end.node.part
	p.advance(now)
	j.far, j.up = f, up
	j.end.node.sw.Hold(p.now, at.Port, false)
	j.end.node.sw.SetLink(p.now, at.Port, up)
	x.net.Reroute()
}

// Up reports whether the link of a trunk's port is up.
func (x *Trunks) Up(at topology.End) bool { return x.at[x.net.end(at)].up }

// Hold makes the port of a trunk send no frames, or ends that.
func (x *Trunks) Hold(at topology.End, on bool) {
	k := &x.net.nodes[at.Node]
	k.sw.Hold(k.part.now, at.Port, on)
}

// Arrive gives the port of a trunk a frame, without its check sequence, which it copies.
func (x *Trunks) Arrive(now dcb.Time, at topology.End, frame []byte) reason.Detail {
	p := x.net.parts[0]
	p.advance(now)
	f := p.pool.Frame()
	f.Data = append(f.Data[:0], frame...)
	if d := f.Parse(); d.Reason != reason.None {
		p.pool.Put(f)
		return d
	}
	f.At, f.Tail = p.now, p.now
	x.net.nodes[at.Node].sw.Receive(p.now, at.Port, f)
	return reason.Detail{}
}

// Reaches reports whether an address is one of the hosts at the other end of a trunk whose link is up.
func (x *Trunks) Reaches(ip netip.Addr) bool {
	if x == nil {
		return false
	}
	return slices.ContainsFunc(x.list, func(j *joint) bool { return j.up && (j.far.Prefix.Contains(ip) || Prefix6(j.far.Prefix).Contains(ip)) })
}

// send gives a frame that leaves by an end to its trunk.
func (x *Trunks) send(e *end, f *dcb.Frame) {
	if f.Telemetry != nil {
		e.node.sw.Port(e.at.Port).Untold++
	}
	x.at[e].Send(f)
	e.node.part.pool.Put(f)
}

// cut takes the cable of a trunk away, or puts it back.
func (x *Trunks) cut(e *end, cut bool) {
	j := x.at[e]
	if j == nil || e.cut == cut {
		return
	}
	if e.cut = cut; cut {
		x.Leave(e.node.part.now, e.at)
	}
	j.Changed()
}

// switches are those that have trunks.
func (x *Trunks) switches() (list []int) {
	if x == nil {
		return nil
	}
	for _, j := range x.list {
		j.hops = make(map[int][]bridge.Hop)
		list = append(list, j.end.at.Node)
	}
	return list
}

// note remembers by which hops a switch reaches another one, if that has trunks.
func (x *Trunks) note(from, to int, hops []bridge.Hop) {
	if x == nil {
		return
	}
	for _, j := range x.list {
		if j.end.at.Node == to {
			j.hops[from] = slices.Clone(hops)
		}
	}
}

// route gives all switches routes to the hosts at the other ends, and lets flooded frames pass where they
// cannot come back: by one trunk, if all lead to one network.
func (x *Trunks) route() {
	if x == nil {
		return
	}
	flood := true
	var first *joint
	for _, j := range x.list {
		j.end.node.sw.Block(j.end.at.Port, true)
		switch {
		case !j.up:
		case first == nil:
			first = j
		case j.far.Prefix != first.far.Prefix:
			flood = false
		}
	}
	if first == nil {
		return
	}
	if flood {
		first.end.node.sw.Block(first.end.at.Port, false)
	}
	for i := range x.net.nodes {
		if x.net.nodes[i].sw != nil {
			x.routeFrom(i)
		}
	}
}

// routeFrom gives a switch its routes.
func (x *Trunks) routeFrom(from int) {
	done := make(map[netip.Prefix]bool)
	for _, j := range x.list {
		if !j.up || done[j.far.Prefix] {
			continue
		}
		var own []bridge.Hop
		for _, o := range x.list {
			if o.up && o.far.Prefix == j.far.Prefix && o.end.at.Node == from {
				own = append(own, bridge.Hop{Port: o.end.at.Port, Address: o.far.Switch})
			}
		}
		if own == nil {
			own = j.hops[from]
		}
		if len(own) > 0 {
			x.net.nodes[from].addRoute(base(j.far.Prefix), j.far.Prefix.Bits(), own...)
			done[j.far.Prefix] = true
		}
	}
}

// Numbers are what the other end of a trunk is told: the prefix of this network's hosts, and the MAC
// address of the switch at the trunk.
func (x *Trunks) Numbers(at topology.End) []uint64 {
	p := x.net.Prefix()
	return []uint64{uint64(base(p))<<8 | uint64(p.Bits()), uint64(x.net.MAC(at.Node))}
}

// ParseNumbers reads Numbers of another network, and reports whether they are well-formed.
func ParseNumbers(n []uint64) (f Far, ok bool) {
	if len(n) != 2 || n[0]>>40 != 0 || n[0]&0xff > 32-hostBits || n[1]>>48 != 0 || dcb.Address(n[1]).Group() {
		return f, false
	}
	f = Far{prefixOf(uint32(n[0]>>8), int(n[0]&0xff)), dcb.Address(n[1])}
	return f, f.Prefix.Masked() == f.Prefix
}
