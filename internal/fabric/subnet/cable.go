package subnet

import (
	"softrdma/internal/fabric/node"
	"softrdma/internal/fabric/port"
	"softrdma/internal/management/agent"
	"softrdma/internal/management/hardware"
	"softrdma/internal/topology"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/smp"
)

// Cut takes a cable away, and Repair puts it back. Both do nothing if that was done before, or
// if the port has no cable.
func (s *Subnet) Cut(at topology.End) { s.setCut(at, true) }

// Repair ends Cut.
func (s *Subnet) Repair(at topology.End) { s.setCut(at, false) }

func (s *Subnet) setCut(at topology.End, cut bool) {
	c := s.cable(at)
	if c.peer.Port == 0 && c.trunk == nil || c.cut == cut {
		return
	}
	if c.trunk != nil {
		c.cut = cut
		if cut {
			s.lose(at)
		}
		s.changed = append(s.changed, at)
		return
	}
	for _, e := range []topology.End{at, c.peer} {
		s.cable(e).cut = cut
		if cut {
			s.lose(e)
		}
	}
	s.train(at)
}

func (n *nodes) cable(e topology.End) *cable { return &n.members[e.Node].cables[e.Port] }

// lose takes the link of a port down because its peer does not answer.
func (n *nodes) lose(e topology.End) {
	m := n.members[e.Node]
	if m.node.Link(e.Port).Physical != smp.PhysicalLinkUp {
		return
	}
	m.node.Disconnect(n.now, e.Port)
	n.schedule(m)
}

// follow acts on a change of a port's link: its agent learns of it, the other end of the
// cable loses a link that went down, and ports that look for each other train.
func (s *Subnet) follow(e topology.End) {
	m := s.members[e.Node]
	m.agent.LinkChanged(s.now, e.Port)
	m.notify(e.Port, 0)
	s.schedule(m)
	c := &m.cables[e.Port]
	if c.trunk != nil {
		c.trunk.Changed()
		return
	}
	if c.peer.Port == 0 || m.node.Link(e.Port).Physical == smp.PhysicalLinkUp {
		return
	}
	c.epoch++
	s.cable(c.peer).epoch++
	s.lose(c.peer)
	s.train(e)
}

// train begins to agree on a link, if both ends of the cable look for a neighbor.
func (s *Subnet) train(e topology.End) {
	c := s.cable(e)
	if s.trains(e) {
		s.training.Push(s.now+trainingTime, training{e, c.epoch})
	}
}

func (n *nodes) trains(e topology.End) bool {
	c := n.cable(e)
	return c.peer.Port != 0 && !c.cut && n.polls(e) && n.polls(c.peer)
}

// polls reports whether a port looks for a neighbor.
func (n *nodes) polls(e topology.End) bool {
	return n.members[e.Node].node.Link(e.Port).Physical == smp.PhysicalPolling
}

// trained ends the training that began when the cable had this epoch.
func (s *Subnet) trained(e topology.End, epoch uint32) {
	c := s.cable(e)
	if c.epoch != epoch || !s.trains(e) {
		return
	}
	a, b := s.members[e.Node], s.members[c.peer.Node]
	node.Train(s.now, node.End{Node: a.node, Port: e.Port}, node.End{Node: b.node, Port: c.peer.Port}, c.link)
	s.schedule(a)
	s.schedule(b)
}

// linkOf has the widths and speeds that the ends of a port's cable may agree on: those that
// the topology names, and the lower ones.
func linkOf(p *topology.Port) hardware.Link {
	l := hardware.Link{Width: smp.Width1x, Speed: smp.SpeedSDR | smp.SpeedDDR | smp.SpeedQDR}
	switch p.Width {
	case 1:
	case 2:
		l.Width |= smp.Width2x
	case 8:
		l.Width |= smp.Width4x | smp.Width8x
	case 12:
		l.Width |= smp.Width4x | smp.Width12x
	default:
		l.Width |= smp.Width4x
	}
	switch p.Speed {
	case topology.SDR:
		l.Speed = smp.SpeedSDR
	case topology.DDR:
		l.Speed = smp.SpeedSDR | smp.SpeedDDR
	case topology.FDR10, topology.FDR:
		l.ExtSpeed = smp.ExtSpeedFDR
	case topology.EDR:
		l.ExtSpeed = smp.ExtSpeedFDR | smp.ExtSpeedEDR
	case topology.HDR:
		l.ExtSpeed = smp.ExtSpeedFDR | smp.ExtSpeedEDR | smp.ExtSpeedHDR
	case topology.NDR, topology.XDR:
		l.ExtSpeed = smp.ExtSpeedFDR | smp.ExtSpeedEDR | smp.ExtSpeedHDR | smp.ExtSpeedNDR
	}
	return l
}

// supported has the widths and speeds of a node: those of its cables.
func supported(t *topology.Node) (all hardware.Link) {
	for i := range t.Ports {
		if p := &t.Ports[i]; p.Peer.Port != 0 {
			l := linkOf(p)
			all.Width, all.Speed, all.ExtSpeed = all.Width|l.Width, all.Speed|l.Speed, all.ExtSpeed|l.ExtSpeed
		}
	}
	if all.Width == 0 {
		return linkOf(new(topology.Port))
	}
	return all
}

// Sizes of tables: those of a small switch, which most fabrics have.
const (
	adapterPartitions = 128
	switchPartitions  = 32
	multicastCap      = 1024
	arbitrationLen    = 64
	adapterGUIDs      = 8
)

// agentConfig describes a node to its agents.
func agentConfig(t *topology.Node, pc *port.Config) *agent.Config {
	link := supported(t)
	c := &agent.Config{
		Type: smp.NodeType(t.Kind), NumPorts: t.NumPorts(), Description: t.Description, SystemImageGUID: t.SystemGUID,
		NodeGUID: t.GUID, VendorID: t.VendorID, DeviceID: uint16(t.DeviceID), Partitions: adapterPartitions,
		Width: link.Width, Speed: link.Speed, ExtSpeed: link.ExtSpeed,
		MTU: mad.MTUFrom(4096), VLs: lanesOf(pc.VLs), Arbitration: arbitrationLen, GUIDs: adapterGUIDs,
	}
	first, last := t.EndPorts()
	for p := first; p <= last; p++ {
		c.PortGUIDs = append(c.PortGUIDs, t.Ports[p].GUID)
	}
	if t.Kind == topology.Switch {
		c.LinearCap, c.MulticastCap, c.ExternalPartitions, c.EnhancedPort0 = uint16(ib.MulticastLID), multicastCap, switchPartitions, t.EnhancedPort0
	}
	return c
}

// lanesOf is the code of a number of data lanes, see port.Config.VLs.
func lanesOf(n int) smp.VLs {
	switch n {
	case 1:
		return smp.VL0
	case 2:
		return smp.VL0to1
	case 4:
		return smp.VL0to3
	case 15:
		return smp.VL0to14
	}
	return smp.VL0to7
}
