package lan

import (
	"softrdma/internal/fabric/dcb"
	"softrdma/internal/topology"
)

// Cut takes a cable away: what is under way on it is lost. Repair puts it back. Both do nothing if
// that was done before, or if the port has no cable. Switches then leave out paths of their own that
// are down; Reroute computes all routes again.
func (n *Network) Cut(at topology.End) { n.setCut(at, true) }

// Repair ends Cut.
func (n *Network) Repair(at topology.End) { n.setCut(at, false) }

// IsCut reports whether the cable of a port was taken away.
func (n *Network) IsCut(at topology.End) bool { return n.end(at).cut }

// Port returns a port of a switch or a host.
func (n *Network) Port(at topology.End) *dcb.Port { return n.port(n.end(at)) }

// Fabric returns the nodes and cables.
func (n *Network) Fabric() *topology.Fabric { return n.config.Fabric }

// Cable returns the delay of the cable of a port, and the time of a byte on it.
func (n *Network) Cable(at topology.End) (delay, perByte dcb.Time) {
	e := n.end(at)
	return e.delay, e.perByte
}

func (n *Network) end(at topology.End) *end { return &n.ends[int(n.nodes[at.Node].first)+at.Port-1] }

func (n *Network) setCut(at topology.End, cut bool) {
	e := n.end(at)
	if e.peer < 0 && n.trunks != nil {
		n.trunks.cut(e, cut)
	}
	if e.peer < 0 || e.cut == cut {
		return
	}
	n.depend = nil
	for _, side := range [...]*end{e, &n.ends[e.peer]} {
		if side.cut = cut; cut {
			n.cuts++
			n.lose(side)
		} else {
			n.cuts--
		}
		n.setLink(side, !cut)
	}
}

func (n *Network) setLink(e *end, up bool) {
	if e.node.sw != nil {
		e.node.sw.SetLink(e.node.part.now, e.at.Port, up)
		return
	}
	e.node.host.SetLink(e.node.part.now, up)
	e.node.writable()
}

// lose drops the frames in flight to one end of a cable.
func (n *Network) lose(e *end) {
	for e.flights.Frames > 0 {
		f := e.flights.Pop()
		if f.Op == 0 {
			e.lost++
			e.node.Dropped(e.node.part.now, e.at.Port, f, dcb.LinkDown(e.at.Port, f.Priority))
		}
		e.node.part.pool.Put(f)
	}
	e.node.part.due.Clear(2*(int(e.node.first-e.node.part.first)+e.at.Port-1) + 1)
}

// Lost returns the number of frames that were under way to a port when its cable was cut.
func (n *Network) Lost(at topology.End) uint64 { return n.end(at).lost }
