package sm

import (
	"cmp"
	"slices"

	"softrdma/internal/management/routing"
	"softrdma/internal/topology"
	"softrdma/internal/wire/mad/smp"
)

// configure computes LIDs and tables, and starts to program switches.
func (m *Manager) configure() {
	m.phase, m.fabric, m.tables = programming, nil, nil
	f := m.buildFabric()
	m.keepLIDs(f)
	if err := f.AssignLIDs(m.config.LMC); err != nil {
		m.status.Reason = err
		return
	}
	m.rememberLIDs(f)
	m.status.Algorithm, m.status.Reason = m.config.Algorithm, nil
	tables, err := routing.Route(f, m.config.Algorithm)
	if err != nil {
		m.status.Algorithm, m.status.Reason = routing.UpDown, err
		if tables, err = routing.Route(f, routing.UpDown); err != nil {
			m.status.Reason = err
			return
		}
	}
	m.fabric, m.tables, m.view = f, tables, m.order
	m.indexEnds()
	for _, n := range m.order {
		m.wanted(n)
		if n.isSwitch() {
			m.programSwitch(n)
		}
	}
	m.createBroadcastGroups()
	m.programMulticast()
}

// buildFabric turns what the sweep found into a topology, ordered by GUID.
func (m *Manager) buildFabric() *topology.Fabric {
	slices.SortFunc(m.order, func(a, b *node) int { return cmp.Compare(a.info.NodeGUID, b.info.NodeGUID) })
	f := &topology.Fabric{Nodes: make([]topology.Node, len(m.order))}
	for i, n := range m.order {
		n.index = i
	}
	for i, n := range m.order {
		t := &f.Nodes[i]
		*t = topology.Node{Kind: topology.Kind(n.info.Type), ID: nodeID(n), Description: n.description.String(), GUID: n.info.NodeGUID,
			SystemGUID: n.info.SystemImageGUID, VendorID: n.info.VendorID, DeviceID: uint32(n.info.DeviceID),
			EnhancedPort0: n.sw.EnhancedPort0, Ports: make([]topology.Port, len(n.ports))}
		for p := range n.ports {
			q := &n.ports[p]
			t.Ports[p].GUID = q.guid
			if q.peer != nil {
				t.Ports[p].Peer = topology.End{Node: q.peer.index, Port: q.peerPort}
				t.Ports[p].Width, t.Ports[p].Speed = linkRate(q)
			}
		}
	}
	return f
}

func nodeID(n *node) string {
	const digits = "0123456789abcdef"
	b := []byte("H-0000000000000000")
	if n.isSwitch() {
		b[0] = 'S'
	}
	for i := range 16 {
		b[len(b)-1-i] = digits[n.info.NodeGUID>>(4*i)&15]
	}
	return string(b)
}

// linkRate reads the active width and speed of a port.
func linkRate(q *port) (topology.Width, topology.Speed) {
	speed := topology.SDR
	for _, s := range []struct {
		base smp.Speed
		ext  smp.ExtSpeed
		is   topology.Speed
	}{
		{smp.SpeedDDR, 0, topology.DDR}, {smp.SpeedQDR, 0, topology.QDR}, {0, smp.ExtSpeedFDR, topology.FDR},
		{0, smp.ExtSpeedEDR, topology.EDR}, {0, smp.ExtSpeedHDR, topology.HDR}, {0, smp.ExtSpeedNDR, topology.NDR},
	} {
		if q.info.SpeedActive&s.base != 0 || q.info.ExtSpeedActive&s.ext != 0 {
			speed = s.is
		}
	}
	return topology.Width(q.info.WidthActive.Lanes()), speed
}

// keepLIDs gives ports the LIDs that this manager gave them before, or else
// those that they have from another one, unless two ports claim the same.
func (m *Manager) keepLIDs(f *topology.Fabric) {
	taken := make(map[uint16]bool)
	claim := func(p *topology.Port, a assignment, lmc uint8) {
		last := int(a.lid) + 1<<a.lmc - 1
		if p.LID != 0 || a.lid == 0 || a.lmc != lmc || last > topology.LastUnicastLID || a.lid&(1<<a.lmc-1) != 0 {
			return
		}
		for l := int(a.lid); l <= last; l++ {
			if taken[uint16(l)] {
				return
			}
		}
		for l := int(a.lid); l <= last; l++ {
			taken[uint16(l)] = true
		}
		p.LID, p.LMC = a.lid, a.lmc
	}
	for _, own := range []bool{true, false} {
		for i, n := range m.order {
			lmc := m.config.LMC
			if n.isSwitch() && !n.sw.EnhancedPort0 {
				lmc = 0
			}
			first, last := f.Nodes[i].EndPorts()
			for p := first; p <= last; p++ {
				a := m.lids[n.ports[p].guid]
				if !own {
					a = assignment{n.ports[p].info.LID, n.ports[p].info.LMC}
				}
				if n.ports[p].known {
					claim(&f.Nodes[i].Ports[p], a, lmc)
				}
			}
		}
	}
}

func (m *Manager) rememberLIDs(f *topology.Fabric) {
	for i := range f.Nodes {
		first, last := f.Nodes[i].EndPorts()
		for p := first; p <= last; p++ {
			if t := &f.Nodes[i].Ports[p]; t.LID != 0 {
				m.lids[t.GUID] = assignment{t.LID, t.LMC}
			}
		}
	}
}

// wanted computes what every known port of a node is to be set to.
func (m *Manager) wanted(n *node) {
	own := m.lids[m.config.GUID].lid
	for i := range n.ports {
		q := &n.ports[i]
		q.config = q.info
		// Zeros change nothing (IBTA 14.2.5.6).
		q.config.State, q.config.Physical, q.config.WidthEnabled, q.config.SpeedEnabled, q.config.ExtSpeedEnabled = 0, 0, 0, 0, 0
		if i == 0 || !n.isSwitch() {
			t := &m.fabric.Nodes[n.index].Ports[i]
			q.config.LID, q.config.LMC, q.config.MasterSMLID, q.config.GIDPrefix, q.config.MKey = t.LID, t.LMC, own, m.config.GIDPrefix, m.config.MKey
			q.config.MasterSMSL = 0
			if m.tables.SL != nil {
				q.config.MasterSMSL = m.tables.SL(t.LID, own)
			}
			q.config.ClientReregister = m.reregister && q.info.CapabilityMask&smp.CapClientReregistration != 0
		}
		if n.isSwitch() && i > 0 {
			q.config.EnforceInbound = m.enforces(n, i)
			q.config.EnforceOutbound = q.config.EnforceInbound
		}
		if q.peer != nil {
			peer := &q.peer.ports[q.peerPort].info
			q.config.NeighborMTU = min(q.info.MTUCap, peer.MTUCap)
			q.config.OperationalVLs = min(q.info.VLCap, peer.VLCap)
		}
	}
}

// programSwitch sets port 0, the forwarding table, and the tables of lanes.
func (m *Manager) programSwitch(n *node) {
	p0 := &n.ports[0]
	if !p0.known {
		return
	}
	if p0.info.LID == 0 {
		delete(m.programmed, n.info.NodeGUID) // it was reset
		delete(m.multicast, n.info.NodeGUID)
	}
	if p0.config != settled(&p0.info) {
		m.set(n.path, smp.AttrPortInfo, 0, &p0.config, func(p *smp.Packet) {
			if p != nil {
				p0.info.Parse(&p.Data)
			}
		})
	}
	lft := m.tables.LFT[n.index]
	if len(lft) > int(n.sw.LinearCap) {
		m.failures++
		lft = lft[:n.sw.LinearCap]
	}
	if top := uint16(len(lft) - 1); len(lft) > 0 && n.sw.LinearTop != top {
		s := n.sw
		s.LinearTop, s.PortStateChange = top, false
		m.set(n.path, smp.AttrSwitchInfo, 0, &s, func(p *smp.Packet) {
			if p != nil {
				n.sw.LinearTop = top
			}
		})
	}
	m.programForwarding(n, lft)
	if m.tables.Lanes > 1 {
		m.programLanes(n)
	}
}

// settled is what a port reports, without what a Set does not change.
func settled(info *smp.PortInfo) smp.PortInfo {
	s := *info
	s.State, s.Physical, s.WidthEnabled, s.SpeedEnabled, s.ExtSpeedEnabled = 0, 0, 0, 0, 0
	return s
}

// programForwarding sets the blocks of a forwarding table that differ from what the switch holds.
func (m *Manager) programForwarding(n *node, lft []uint8) {
	const size = len(smp.LinearForwarding{})
	held := m.programmed[n.info.NodeGUID]
	for block := range (len(lft) + size - 1) / size {
		var want smp.LinearForwarding
		for i := range want {
			want[i] = smp.NoPort
		}
		copy(want[:], lft[block*size:])
		if (block+1)*size <= len(held) && slices.Equal(held[block*size:(block+1)*size], want[:]) {
			continue
		}
		m.set(n.path, smp.AttrLinearForwarding, uint32(block), &want, func(p *smp.Packet) {
			held := m.programmed[n.info.NodeGUID]
			for p != nil && len(held) < (block+1)*size {
				held = append(held, 0) // port 0: no table has it where a LID is unknown
			}
			if p != nil {
				copy(held[block*size:], want[:])
			} else if block*size < len(held) {
				held = held[:block*size]
			}
			m.programmed[n.info.NodeGUID] = held
		})
	}
}

// programLanes sets the lane of every service level between connected ports,
// and lets all lanes in operation send in turn.
func (m *Manager) programLanes(n *node) {
	for out := 1; out < len(n.ports); out++ {
		if n.ports[out].peer == nil {
			continue
		}
		for in := range n.ports {
			if in == out || in > 0 && n.ports[in].peer == nil {
				continue
			}
			var t smp.SLtoVL
			for sl := range t {
				t[sl] = m.tables.Lane(n.index, in, out, uint8(sl))
			}
			m.set(n.path, smp.AttrSLtoVL, smp.SLtoVLModifier(in, out), &t, func(*smp.Packet) {})
		}
		var w smp.VLArbitration
		lanes := min(n.ports[out].config.OperationalVLs.Count(), int(n.ports[out].info.VLArbitrationLowCap), len(w))
		for vl := range lanes {
			w[vl] = smp.Weight{VL: uint8(vl), Weight: 64}
		}
		if lanes > 1 {
			m.set(n.path, smp.AttrVLArbitration, smp.ArbitrationModifier(smp.ArbitrationLow, out), &w, func(*smp.Packet) {})
		}
	}
}

// arm sets the links' ports, and takes those that are new from Init to Armed.
func (m *Manager) arm() {
	if m.tables == nil {
		return
	}
	m.eachLink(func(n *node, i int) {
		q := &n.ports[i]
		c := q.config
		if q.info.State == smp.PortInit {
			c.State = smp.PortArmed
		}
		if c == settled(&q.info) && !m.reregister {
			return
		}
		set := func() {
			m.set(n.route(i), smp.AttrPortInfo, uint32(i), &c, func(p *smp.Packet) {
				if p != nil {
					q.info.Parse(&p.Data)
				}
			})
		}
		if n.isSwitch() && !m.enforces(n, i) || !n.isSwitch() && q.info.State != smp.PortInit && !m.reregister {
			set()
			return
		}
		m.joinPartitions(n, i, set)
	})
}

// activate takes armed ports to Active (IBTA 7.2.7).
func (m *Manager) activate() {
	if m.tables == nil {
		return
	}
	m.eachLink(func(n *node, i int) {
		q := &n.ports[i]
		if q.info.State != smp.PortArmed {
			return
		}
		c := q.config
		c.State, c.ClientReregister = smp.PortActive, false
		m.set(n.route(i), smp.AttrPortInfo, uint32(i), &c, func(p *smp.Packet) {
			if p != nil {
				q.info.Parse(&p.Data)
			}
		})
	})
}

// eachLink calls do for every port whose link the sweep followed.
func (m *Manager) eachLink(do func(n *node, i int)) {
	for _, n := range m.order {
		for i := range n.ports {
			if i > 0 && n.ports[i].peer != nil && n.ports[i].up() {
				do(n, i)
			}
		}
	}
}
