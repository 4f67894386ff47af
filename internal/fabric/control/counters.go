package control

import (
	"fmt"

	"softrdma/internal/management/hardware"
	"softrdma/internal/topology"
)

// Counters are what a port has counted since the fabric's start. Clearing the counters of
// the performance agent leaves them alone.
type Counters struct {
	Node   string    `json:"node"`
	Port   int       `json:"port"`
	Values []Counter `json:"values"` // those that are not zero
}

// A Counter has the name that IBTA 16.1.3 and perfquery use, or one like it.
type Counter struct {
	Name  string `json:"name"`
	Value uint64 `json:"value"`
}

func (c *view) counters(r *Request, reply *Reply) error {
	return c.count(r, reply, func(e topology.End) []Counter { return counterValues(c.Node(e.Node).Counters(e.Port)) })
}

// count answers with what the ports of a request have counted.
func (c *directory) count(r *Request, reply *Reply, values func(topology.End) []Counter) error {
	reply.Counters = []Counters{}
	add := func(list []topology.End) {
		for _, e := range list {
			reply.Counters = append(reply.Counters, Counters{c.names[e.Node], e.Port, values(e)})
		}
	}
	if len(r.Args) > 0 {
		return each(r.Args, c.findPorts, add)
	}
	for i := range c.fabric.Nodes {
		add(c.portsOf(i))
	}
	return nil
}

// findPorts reads the name of a port, or that of a node with all its ports.
func (c *directory) findPorts(name string) ([]topology.End, error) {
	node, port, err := c.find(name)
	if err != nil || port > 0 {
		return []topology.End{{Node: node, Port: port}}, err
	}
	return c.portsOf(node), nil
}

// portsOf returns the ports of a node that have a cable.
func (c *directory) portsOf(node int) (list []topology.End) {
	for p := 1; p <= c.fabric.Nodes[node].NumPorts(); p++ {
		if e := (topology.End{Node: node, Port: p}); c.hasCable(e) {
			list = append(list, e)
		}
	}
	return list
}

func counterValues(k *hardware.Counters) []Counter {
	all := [...]Counter{
		{"PortXmitData", k.XmitData}, {"PortRcvData", k.RcvData}, // words of four bytes
		{"PortXmitPkts", k.XmitPackets}, {"PortRcvPkts", k.RcvPackets},
		{"PortUnicastXmitPkts", k.UnicastXmit}, {"PortUnicastRcvPkts", k.UnicastRcv},
		{"PortMulticastXmitPkts", k.MulticastXmit}, {"PortMulticastRcvPkts", k.MulticastRcv},
		{"PortXmitWait", k.XmitWait}, // ticks of 4 ns
		{"SymbolErrorCounter", k.SymbolErrors}, {"LinkErrorRecoveryCounter", k.LinkErrorRecovery}, {"LinkDownedCounter", k.LinkDowned},
		{"PortRcvErrors", k.RcvErrors}, {"PortLocalPhysicalErrors", k.LocalPhysicalErrors}, {"PortMalformedPacketErrors", k.Malformed},
		{"PortBufferOverrunErrors", k.BufferOverruns}, {"PortRcvRemotePhysicalErrors", k.RcvRemotePhysicalErrors},
		{"PortRcvSwitchRelayErrors", k.RcvSwitchRelayErrors}, {"PortDLIDMappingErrors", k.DLIDMapping},
		{"PortVLMappingErrors", k.VLMapping}, {"PortLoopingErrors", k.LoopingDLID},
		{"PortXmitDiscards", k.XmitDiscards}, {"PortInactiveDiscards", k.InactiveDiscards}, {"PortNeighborMTUDiscards", k.NeighborMTU},
		{"PortSwLifetimeLimitDiscards", k.LifeTimeDiscards}, {"PortSwHOQLifetimeLimitDiscards", k.HOQDiscards},
		{"PortXmitConstraintErrors", k.XmitConstraintErrors}, {"PortRcvConstraintErrors", k.RcvConstraintErrors},
		{"LocalLinkIntegrityErrors", k.LocalLinkIntegrityErrors}, {"ExcessiveBufferOverrunErrors", k.ExcessiveBufferOverruns},
		{"QP1Dropped", k.QP1Dropped}, {"VL15Dropped", k.VL15Dropped},
	}
	values := []Counter{}
	for _, v := range all {
		if v.Value != 0 {
			values = append(values, v)
		}
	}
	for vl, n := range k.VLXmitWait {
		if n != 0 {
			values = append(values, Counter{fmt.Sprintf("PortVLXmitWait%d", vl), n})
		}
	}
	return values
}
