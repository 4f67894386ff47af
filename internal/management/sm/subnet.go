package sm

import (
	"cmp"
	"encoding/binary"
	"slices"

	"softrdma/internal/management/routing"
	"softrdma/internal/topology"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/smp"
)

// A subnet is the fabric as the manager has numbered and routed it. Sweeps replace it; all
// others read it.
type subnet struct {
	config *Config
	lids   map[uint64]assignment // by port GUID, kept over sweeps

	fabric *topology.Fabric // nil before the first complete sweep
	tables *routing.Tables
	view   []*node // the nodes of fabric, by index

	byGUID   map[uint64]topology.End // the ports with LIDs
	byLID    map[uint16]topology.End
	portKeys map[uint64][]uint16 // of these ports, by GUID
}

// An assignment is a port's LIDs.
type assignment struct {
	lid uint16
	lmc uint8
}

// assign gives LIDs and routes to what a sweep found, and sorts the fabric. The
// status says by which algorithm, or why not.
func (s *subnet) assign(order []*node, status *Status) bool {
	s.fabric, s.tables = nil, nil
	f := buildFabric(order)
	s.keepLIDs(f, order)
	if err := f.AssignLIDs(s.config.LMC); err != nil {
		status.Reason = err
		return false
	}
	s.rememberLIDs(f)
	status.Algorithm, status.Reason = s.config.Algorithm, nil
	tables, err := routing.Route(f, s.config.Algorithm)
	if err != nil {
		status.Algorithm, status.Reason = routing.UpDown, err
		if tables, err = routing.Route(f, routing.UpDown); err != nil {
			status.Reason = err
			return false
		}
	}
	s.fabric, s.tables, s.view = f, tables, order
	s.indexEnds()
	return true
}

// ownLID is the LID of the manager's port.
func (s *subnet) ownLID() uint16 { return s.lids[s.config.GUID].lid }

// buildFabric turns what the sweep found into a topology, ordered by GUID.
func buildFabric(order []*node) *topology.Fabric {
	slices.SortFunc(order, func(a, b *node) int { return cmp.Compare(a.info.NodeGUID, b.info.NodeGUID) })
	f := &topology.Fabric{Nodes: make([]topology.Node, len(order))}
	for i, n := range order {
		n.index = i
	}
	for i, n := range order {
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
func (s *subnet) keepLIDs(f *topology.Fabric, order []*node) {
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
		for i, n := range order {
			lmc := s.config.LMC
			if n.isSwitch() && !n.sw.EnhancedPort0 {
				lmc = 0
			}
			first, last := f.Nodes[i].EndPorts()
			for p := first; p <= last; p++ {
				a := s.lids[n.ports[p].guid]
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

func (s *subnet) rememberLIDs(f *topology.Fabric) {
	for i := range f.Nodes {
		first, last := f.Nodes[i].EndPorts()
		for p := first; p <= last; p++ {
			if t := &f.Nodes[i].Ports[p]; t.LID != 0 {
				s.lids[t.GUID] = assignment{t.LID, t.LMC}
			}
		}
	}
}

// findEnd returns the port that has a GID of this subnet.
func (s *subnet) findEnd(gid mad.GID) (topology.End, bool) {
	if binary.BigEndian.Uint64(gid[:]) != s.config.GIDPrefix {
		return topology.End{}, false
	}
	e, ok := s.byGUID[binary.BigEndian.Uint64(gid[8:])]
	return e, ok
}

// findLID returns the port that has a LID.
func (s *subnet) findLID(lid uint16) (topology.End, bool) {
	e, ok := s.byLID[lid]
	return e, ok
}

// indexEnds makes the ports of a new fabric known by GUID and LID.
func (s *subnet) indexEnds() {
	s.byGUID, s.byLID, s.portKeys = make(map[uint64]topology.End), make(map[uint16]topology.End), make(map[uint64][]uint16)
	s.eachEnd(func(e topology.End, _ *node) {
		p := s.fabric.Port(e)
		s.byGUID[p.GUID], s.portKeys[p.GUID] = e, s.keys(p.GUID)
		for i := range 1 << p.LMC {
			s.byLID[p.LID+uint16(i)] = e
		}
	})
}

// gid is the GID of a port.
func (s *subnet) gid(e topology.End) mad.GID { return s.gidOf(s.fabric.Port(e).GUID) }

// gidOf is the GID with a GUID.
func (s *subnet) gidOf(guid uint64) (g mad.GID) {
	binary.BigEndian.PutUint64(g[:], s.config.GIDPrefix)
	binary.BigEndian.PutUint64(g[8:], guid)
	return g
}

// lidsOf lists the LIDs of a port.
func (s *subnet) lidsOf(e topology.End) []uint16 {
	p := s.fabric.Port(e)
	lids := make([]uint16, 1<<p.LMC)
	for i := range lids {
		lids[i] = p.LID + uint16(i)
	}
	return lids
}

// lidAt is the LID of a port, or of port 0 of its switch.
func (s *subnet) lidAt(e topology.End) uint16 {
	if s.view[e.Node].isSwitch() {
		e.Port = 0
	}
	return s.fabric.Port(e).LID
}

// eachEnd calls do for each port with a LID, of the fabric that is programmed.
func (s *subnet) eachEnd(do func(e topology.End, n *node)) {
	for i, n := range s.view {
		first, last := s.fabric.Nodes[i].EndPorts()
		for p := first; p <= last; p++ {
			if s.fabric.Nodes[i].Ports[p].LID != 0 {
				do(topology.End{Node: i, Port: p}, n)
			}
		}
	}
}
