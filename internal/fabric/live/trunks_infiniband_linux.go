package live

import (
	"slices"
	"time"

	"softrdma/internal/fabric/subnet"
	"softrdma/internal/fabric/trunk"
	"softrdma/internal/management/hardware"
	"softrdma/internal/reason"
	"softrdma/internal/topology"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/mad/smp"
)

// A subnetEnd joins a port of a subnet to a trunk.
type subnetEnd struct {
	*trunkEnd
	own []uint64 // GUIDs of the own nodes and ports, sorted
}

// The subnet gives frames to the trunk, and the trunk gives frames to the subnet.
var (
	_ subnet.Trunk = (*subnetEnd)(nil)
	_ plug         = (*subnetEnd)(nil)
)

// plugOf implements network.
func (f infiniband) plugOf(e *trunkEnd) plug { return &subnetEnd{e, allGUIDs(f.config.Fabric)} }

// said implements plug.
func (e *subnetEnd) said() (guids []uint64, u trunk.Use, l hardware.Link) {
	return e.own, trunk.Fabrics, e.fabric.subnet.Supported(e.at.Node)
}

// begin implements plug.
func (e *subnetEnd) begin() error {
	e.fabric.subnet.SetTrunk(0, e.at, e)
	return nil
}

// received implements plug: credits leave nothing waiting.
func (*subnetEnd) received() {}

// allGUIDs are the GUIDs of nodes and end ports, sorted.
func allGUIDs(f *topology.Fabric) (list []uint64) {
	for i := range f.Nodes {
		n := &f.Nodes[i]
		list = append(list, n.GUID)
		for p, last := n.EndPorts(); p <= last; p++ {
			list = append(list, n.Ports[p].GUID)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Send implements subnet.Trunk.
func (e *subnetEnd) Send(frame []byte) {
	if d := e.trunk.Send(e.now, frame); d.Reason != reason.None {
		e.fabric.drop(e.at, d)
	}
}

// Changed implements subnet.Trunk.
func (e *subnetEnd) Changed() {
	n := e.fabric.subnet.Node(e.at.Node)
	c, can := n.PortConfig(e.at.Port), e.fabric.subnet.Supported(e.at.Node)
	ext := c.ExtSpeed
	if ext != smp.ExtSpeedNone {
		ext &= can.ExtSpeed
	}
	e.trunk.PortChanged(e.now, trunk.PortState{
		Polls: e.fabric.subnet.Polls(e.at), Up: n.Link(e.at.Port).Physical == smp.PhysicalLinkUp, Width: c.Width & can.Width, Speed: c.Speed & can.Speed, ExtSpeed: ext,
	})
}

// Nodes implements trunk.Port.
func (e *subnetEnd) Nodes(p *trunk.Peer, guids []uint64) reason.Detail {
	if p.Process != e.process {
		if g, found := common(e.own, guids); found {
			return e.collide(g)
		}
		for _, o := range e.ends {
			if o.others == p.Process || o.nodes == nil {
				continue
			}
			if g, found := common(o.nodes, guids); found {
				return e.collide(g)
			}
		}
	}
	e.joined(p, slices.Sorted(slices.Values(guids)))
	return reason.Detail{}
}

func (e *subnetEnd) collide(guid uint64) reason.Detail {
	return reason.Detail{Reason: reason.FabricTrunkNode, Found: guid}
}

// common returns a number of a sorted list that another list has as well, if there is one.
func common(sorted, list []uint64) (uint64, bool) {
	for _, g := range list {
		if _, found := slices.BinarySearch(sorted, g); found {
			return g, true
		}
	}
	return 0, false
}

// Connect implements trunk.Port.
func (e *subnetEnd) Connect(now time.Duration, l hardware.Link) { e.fabric.subnet.Join(now, e.at, l) }

// Disconnect implements trunk.Port.
func (e *subnetEnd) Disconnect(now time.Duration) { e.fabric.subnet.Leave(now, e.at) }

// Frame implements trunk.Port.
func (e *subnetEnd) Frame(now time.Duration, frame []byte) {
	if len(frame) > ib.MaxNativeLen {
		e.fabric.drop(e.at, reason.Detail{Reason: reason.FabricLength, Expected: ib.MaxNativeLen, Found: uint64(len(frame))})
		return
	}
	own := e.fabric.subnet.Pool().Buffer(len(frame))
	copy(own, frame)
	e.fabric.subnet.Arrive(now, e.at, own)
}
