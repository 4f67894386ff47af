package control

import (
	"softrdma/internal/management/routing"
	"softrdma/internal/topology"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/mad/smp"
)

// present returns the tables that the switches hold now, with the links that carry data now.
func (c *view) present(sl *uint8) *routing.Tables {
	t := &routing.Tables{Fabric: c.fabric.Clone(), LFT: make([][]uint8, len(c.fabric.Nodes)), SL: c.serviceLevels(sl), Lane: c.lane}
	for _, e := range c.cables() {
		if c.linkState(e) != LinkActive {
			t.Fabric.Disconnect(e)
		}
	}
	for i := range c.fabric.Nodes {
		first, last := c.fabric.Nodes[i].EndPorts()
		for p := first; p <= last; p++ {
			t.Fabric.Nodes[i].Ports[p].LID, t.Fabric.Nodes[i].Ports[p].LMC = c.Agent(i).LID(p)
		}
		if c.isSwitch(i) {
			for lid := range c.Node(i).LinearTop() + 1 {
				t.LFT[i] = append(t.LFT[i], c.Node(i).Unicast(lid))
			}
		}
	}
	return t
}

// lane returns the lane of packets through a switch, or 255 if it discards them.
func (c *view) lane(node, in, out int, sl uint8) uint8 {
	vl := c.Node(node).Lane(in, out, sl)
	if vl == ib.ManagementVL || int(vl) >= c.Node(node).PortConfig(out).VLs {
		return 255
	}
	return vl
}

// serviceLevels returns the service level of packets from one LID to another: the one asked
// for, or that of the fabric's own manager, or 0.
func (c *view) serviceLevels(sl *uint8) func(from, to uint16) uint8 {
	if sl != nil {
		return func(_, _ uint16) uint8 { return *sl }
	}
	if c.knowsLevels() {
		if _, t := c.manager.Fabric(); t != nil && t.SL != nil {
			return t.SL
		}
	}
	return func(_, _ uint16) uint8 { return 0 }
}

// knowsLevels reports whether the fabric's own manager decides on service levels.
func (c *view) knowsLevels() bool {
	return c.manager != nil && c.manager.Status().State == smp.SMMaster
}

// behind describes what a port of a node leads to.
func (c *view) behind(e topology.End) string {
	peer := c.fabric.Port(e).Peer
	switch t := c.Trunk(e); {
	case t != nil && c.linkState(e) != LinkActive:
		return t.String() + " (link " + c.linkState(e) + ")"
	case t != nil:
		return t.String()
	case peer.Port == 0:
		return "nothing"
	case c.linkState(e) != LinkActive:
		return c.endName(peer) + " (link " + c.linkState(e) + ")"
	}
	return c.endName(peer)
}
