package sm

import (
	"slices"

	"softrdma/internal/wire/mad/smp"
)

// A writer sets what nodes are to hold: settings of ports, partitions, forwarding tables and
// tables of lanes. It knows what switches hold, and sends them the difference only.
type writer struct {
	config   *Config
	requests *requests
	subnet   *subnet

	programmed map[uint64][]uint8                                    // forwarding tables, by the switch's GUID
	multicast  map[uint64]map[multicastBlock]smp.MulticastForwarding // multicast tables, by the switch's GUID
	reregister bool                                                  // clients must register again with the new master
	incomplete func()                                                // a table outside a sweep was not written
}

// forget makes the writer send everything again: another manager may have written the tables.
func (w *writer) forget() {
	clear(w.programmed)
	clear(w.multicast)
}

// program starts to program switches, and computes what every port is to be set to.
func (w *writer) program() {
	for _, n := range w.subnet.view {
		w.wanted(n)
		if n.isSwitch() {
			w.programSwitch(n)
		}
	}
}

// wanted computes what every known port of a node is to be set to.
func (w *writer) wanted(n *node) {
	own := w.subnet.ownLID()
	for i := range n.ports {
		q := &n.ports[i]
		q.config = q.info
		// Zeros change nothing (IBTA 14.2.5.6).
		q.config.State, q.config.Physical, q.config.WidthEnabled, q.config.SpeedEnabled, q.config.ExtSpeedEnabled = 0, 0, 0, 0, 0
		if i == 0 || !n.isSwitch() {
			t := &w.subnet.fabric.Nodes[n.index].Ports[i]
			q.config.LID, q.config.LMC, q.config.MasterSMLID, q.config.GIDPrefix, q.config.MKey = t.LID, t.LMC, own, w.config.GIDPrefix, w.config.MKey
			q.config.MasterSMSL = 0
			if w.subnet.tables.SL != nil {
				q.config.MasterSMSL = w.subnet.tables.SL(t.LID, own)
			}
			q.config.ClientReregister = w.reregister && q.info.CapabilityMask&smp.CapClientReregistration != 0
		}
		if n.isSwitch() && i > 0 {
			q.config.EnforceInbound = w.enforces(n, i)
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
func (w *writer) programSwitch(n *node) {
	p0 := &n.ports[0]
	if !p0.known {
		return
	}
	if p0.info.LID == 0 {
		delete(w.programmed, n.info.NodeGUID) // it was reset
		delete(w.multicast, n.info.NodeGUID)
	}
	if p0.config != settled(&p0.info) {
		w.requests.set(n.path, smp.AttrPortInfo, 0, &p0.config, func(p *smp.Packet) {
			if p != nil {
				p0.info.Parse(&p.Data)
			}
		})
	}
	lft := w.subnet.tables.LFT[n.index]
	if len(lft) > int(n.sw.LinearCap) {
		w.requests.failures++
		lft = lft[:n.sw.LinearCap]
	}
	if top := uint16(len(lft) - 1); len(lft) > 0 && n.sw.LinearTop != top {
		s := n.sw
		s.LinearTop, s.PortStateChange = top, false
		w.requests.set(n.path, smp.AttrSwitchInfo, 0, &s, func(p *smp.Packet) {
			if p != nil {
				n.sw.LinearTop = top
			}
		})
	}
	w.programForwarding(n, lft)
	if w.subnet.tables.Lanes > 1 {
		w.programLanes(n)
	}
}

// settled is what a port reports, without what a Set does not change.
func settled(info *smp.PortInfo) smp.PortInfo {
	s := *info
	s.State, s.Physical, s.WidthEnabled, s.SpeedEnabled, s.ExtSpeedEnabled = 0, 0, 0, 0, 0
	return s
}

// programForwarding sets the blocks of a forwarding table that differ from what the switch holds.
func (w *writer) programForwarding(n *node, lft []uint8) {
	const size = len(smp.LinearForwarding{})
	held := w.programmed[n.info.NodeGUID]
	for block := range (len(lft) + size - 1) / size {
		var want smp.LinearForwarding
		for i := range want {
			want[i] = smp.NoPort
		}
		copy(want[:], lft[block*size:])
		if (block+1)*size <= len(held) && slices.Equal(held[block*size:(block+1)*size], want[:]) {
			continue
		}
		w.requests.set(n.path, smp.AttrLinearForwarding, uint32(block), &want, func(p *smp.Packet) {
			held := w.programmed[n.info.NodeGUID]
			for p != nil && len(held) < (block+1)*size {
				held = append(held, 0) // port 0: no table has it where a LID is unknown
			}
			if p != nil {
				copy(held[block*size:], want[:])
			} else if block*size < len(held) {
				held = held[:block*size]
			}
			w.programmed[n.info.NodeGUID] = held
		})
	}
}

// programLanes sets the lane of every service level between connected ports,
// and lets all lanes in operation send in turn.
func (w *writer) programLanes(n *node) {
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
				t[sl] = w.subnet.tables.Lane(n.index, in, out, uint8(sl))
			}
			w.requests.set(n.path, smp.AttrSLtoVL, smp.SLtoVLModifier(in, out), &t, func(*smp.Packet) {})
		}
		var weights smp.VLArbitration
		lanes := min(n.ports[out].config.OperationalVLs.Count(), int(n.ports[out].info.VLArbitrationLowCap), len(weights))
		for vl := range lanes {
			weights[vl] = smp.Weight{VL: uint8(vl), Weight: 64}
		}
		if lanes > 1 {
			w.requests.set(n.path, smp.AttrVLArbitration, smp.ArbitrationModifier(smp.ArbitrationLow, out), &weights, func(*smp.Packet) {})
		}
	}
}

// arm sets the links' ports, and takes those that are new from Init to Armed.
func (w *writer) arm() {
	if w.subnet.tables == nil {
		return
	}
	w.eachLink(func(n *node, i int) {
		q := &n.ports[i]
		c := q.config
		if q.info.State == smp.PortInit {
			c.State = smp.PortArmed
		}
		if c == settled(&q.info) && !w.reregister {
			return
		}
		set := func() {
			w.requests.set(n.route(i), smp.AttrPortInfo, uint32(i), &c, func(p *smp.Packet) {
				if p != nil {
					q.info.Parse(&p.Data)
				}
			})
		}
		if n.isSwitch() && !w.enforces(n, i) || !n.isSwitch() && q.info.State != smp.PortInit && !w.reregister {
			set()
			return
		}
		w.joinPartitions(n, i, set)
	})
}

// activate takes armed ports to Active (IBTA 7.2.7).
func (w *writer) activate() {
	if w.subnet.tables == nil {
		return
	}
	w.eachLink(func(n *node, i int) {
		q := &n.ports[i]
		if q.info.State != smp.PortArmed {
			return
		}
		c := q.config
		c.State, c.ClientReregister = smp.PortActive, false
		w.requests.set(n.route(i), smp.AttrPortInfo, uint32(i), &c, func(p *smp.Packet) {
			if p != nil {
				q.info.Parse(&p.Data)
			}
		})
	})
}

// eachLink calls do for every port whose link the sweep followed.
func (w *writer) eachLink(do func(n *node, i int)) {
	for _, n := range w.subnet.view {
		for i := range n.ports {
			if i > 0 && n.ports[i].peer != nil && n.ports[i].up() {
				do(n, i)
			}
		}
	}
}
