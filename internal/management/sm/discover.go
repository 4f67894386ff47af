package sm

import (
	"cmp"
	"slices"

	"softrdma/internal/topology"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/smp"
)

// A discovery finds out what the subnet consists of.
type discovery struct {
	config   *Config
	requests *requests
	nodes    map[uint64]*node // by GUID, as the present or the last sweep found them
	order    []*node          // in the order of discovery
	managers []manager        // others that the sweep found
	again    bool             // something changed: sweep when the present work is done
}

// A node is what a sweep found out about a node.
type node struct {
	info        smp.NodeInfo
	description smp.NodeDescription
	sw          smp.SwitchInfo
	path        []uint8 // directed route from the manager
	ports       []port
	index       int // in the fabric
}

// A port is what a sweep found out about a port.
type port struct {
	known    bool
	info     smp.PortInfo
	guid     uint64
	path     []uint8 // directed route to an adapter's port
	peer     *node
	peerPort int
	config   smp.PortInfo // what the manager wants it to be
}

func (n *node) isSwitch() bool { return n.info.Type == smp.Switch }

func sortByTID(q []*request) {
	slices.SortFunc(q, func(a, b *request) int { return cmp.Compare(a.packet.TID, b.packet.TID) })
}

// startSweep begins to discover everything (IBTA 14.4.3, heavy sweep).
func (d *discovery) startSweep() {
	d.again, d.requests.failures = false, 0
	d.nodes, d.order, d.managers = make(map[uint64]*node), nil, nil
	d.visit(nil, nil, 0)
}

// visit asks what is at the end of a route, which leaves from by a port.
func (d *discovery) visit(path []uint8, from *node, fromPort int) {
	if len(path) > smp.MaxHops {
		return
	}
	d.requests.get(path, smp.AttrNodeInfo, 0, func(p *smp.Packet) {
		if p == nil {
			return
		}
		var info smp.NodeInfo
		info.Parse(&p.Data)
		n := d.nodes[info.NodeGUID]
		if n == nil && (info.NumPorts < 1 || info.NumPorts > topology.MaxPorts || len(d.nodes) == d.config.MaxNodes) {
			d.requests.failures++
			return
		}
		isNew := n == nil
		if isNew {
			n = &node{info: info, path: path, ports: make([]port, int(info.NumPorts)+1)}
		}
		local := int(info.LocalPort)
		if !n.join(local, from, fromPort) {
			d.requests.failures++
			return
		}
		if isNew {
			d.nodes[info.NodeGUID] = n
			d.order = append(d.order, n)
			d.explore(n)
		}
		if q := &n.ports[local]; !n.isSwitch() && q.path == nil {
			q.guid, q.path = info.PortGUID, append(make([]uint8, 0, len(path)), path...)
			d.readPort(n, local)
		}
	})
}

// join enters the link by which a sweep came to a node, and reports whether it
// agrees with the links that it knows. The first node has no such link.
func (n *node) join(local int, from *node, fromPort int) bool {
	if local >= len(n.ports) || local == 0 && (from != nil || !n.isSwitch()) {
		return false
	}
	if from == nil {
		return true
	}
	here, there := &n.ports[local], &from.ports[fromPort]
	if here == there || here.peer != nil && (here.peer != from || here.peerPort != fromPort) || there.peer != nil && (there.peer != n || there.peerPort != local) {
		return false
	}
	there.peer, there.peerPort = n, local
	here.peer, here.peerPort = from, fromPort
	return true
}

// explore asks all that concerns a node as a whole.
func (d *discovery) explore(n *node) {
	d.requests.get(n.path, smp.AttrNodeDescription, 0, func(p *smp.Packet) {
		if p != nil {
			n.description.Parse(&p.Data)
		}
	})
	if !n.isSwitch() {
		return
	}
	n.ports[0].guid = n.info.PortGUID
	d.requests.get(n.path, smp.AttrSwitchInfo, 0, func(p *smp.Packet) {
		if p == nil {
			return
		}
		n.sw.Parse(&p.Data)
		if n.sw.PortStateChange {
			// A one clears the bit (IBTA 14.2.5.4). Changes after this set it again.
			d.requests.set(n.path, smp.AttrSwitchInfo, 0, &n.sw, func(*smp.Packet) { d.readPorts(n) })
			return
		}
		d.readPorts(n)
	})
}

func (d *discovery) readPorts(n *node) {
	for i := range n.ports {
		d.readPort(n, i)
	}
}

// route is the directed route to the agent that answers for a port.
func (n *node) route(i int) []uint8 {
	if n.isSwitch() {
		return n.path
	}
	return n.ports[i].path
}

// readPort asks for a port's state, and explores its neighbor if its link is up.
func (d *discovery) readPort(n *node, i int) {
	d.requests.get(n.route(i), smp.AttrPortInfo, uint32(i), func(p *smp.Packet) {
		if p == nil {
			return
		}
		q := &n.ports[i]
		q.info.Parse(&p.Data)
		q.known = true
		if (i == 0 || !n.isSwitch()) && q.info.CapabilityMask&smp.CapSM != 0 && q.guid != d.config.GUID {
			d.readManager(n, i)
		}
		own := len(n.path) == 0
		if i > 0 && q.up() && q.peer == nil && (n.isSwitch() || own && q.guid == d.config.GUID) {
			d.visit(append(slices.Clone(n.path), uint8(i)), n, i)
		}
	})
}

// up reports whether the link of a port passes management packets (IBTA 7.2.7).
func (q *port) up() bool {
	return q.known && q.info.Physical == smp.PhysicalLinkUp && q.info.State >= smp.PortInit
}

// lightSweep looks at every switch for changes (IBTA 14.4.3).
func (d *discovery) lightSweep() {
	d.requests.failures = 0
	for _, n := range d.order {
		if !n.isSwitch() {
			continue
		}
		d.requests.get(n.path, smp.AttrSwitchInfo, 0, func(p *smp.Packet) {
			var s smp.SwitchInfo
			if p != nil {
				s.Parse(&p.Data)
			}
			if p == nil || s.PortStateChange {
				d.again = true
			}
		})
	}
	for i := range d.managers {
		o := &d.managers[i]
		d.requests.get(o.path, smp.AttrSMInfo, 0, func(p *smp.Packet) {
			if p == nil {
				d.again = true
				return
			}
			old := o.info
			o.info.Parse(&p.Data)
			d.again = d.again || old.State != o.info.State || old.Priority != o.info.Priority
		})
	}
}

// trap handles a notice of an agent, and keeps the agent from repeating it (IBTA 13.4.9).
func (m *Manager) trap(in *Arrival, p *smp.Packet) {
	if m.state != smp.SMMaster {
		return
	}
	r := smp.NewRouted(mad.MethodTrapRepress, mad.AttrNotice, 0, p.TID, m.config.MKey)
	r.Data = p.Data
	d := Departure{DLID: in.SLID, SL: in.SL}
	r.Put(&d.MAD)
	m.replies.waiting = append(m.replies.waiting, d)
	var n mad.Notice
	n.ParseManagement(&p.Data)
	m.notices.forward(n)
	if n.Generic && (n.Number == trapLinkState || n.Number == trapCapabilityMask) {
		m.discovery.again = true
	}
}

// Traps that make the manager sweep (IBTA 14.2.5.1).
const (
	trapLinkState      = 128
	trapCapabilityMask = 144
)
