package control

import (
	"softrdma/internal/fabric/hostport"
	"softrdma/internal/topology"
	"softrdma/internal/wire/mad/smp"
)

// A Port is a port of an adapter, which a program can open.
type Port struct {
	Node     string             `json:"node"`
	Port     int                `json:"port"`
	GUID     uint64             `json:"guid"`
	State    string             `json:"state"`
	LID      uint16             `json:"lid"`                // 0 if it has none
	Manager  uint16             `json:"manager"`            // LID of the master subnet manager, 0 if there is none
	IPs      []string           `json:"ips,omitempty"`      // on Ethernet, that of IPv4 first
	MTU      int                `json:"mtu"`                // active, in bytes
	Width    string             `json:"width,omitempty"`    // like "4x"; "" while the link is down
	Speed    string             `json:"speed,omitempty"`    // like "EDR"
	Programs []hostport.Program `json:"programs,omitempty"` // that are attached
}

// A Host is a subnet.Program that gives ports to processes.
type Host interface {
	// Programs returns the programs that are attached to a port.
	Programs(port int) []hostport.Program
}

func (c *view) ports(_ *Request, reply *Reply) error {
	for i := range c.fabric.Nodes {
		if c.isSwitch(i) {
			continue
		}
		for p := 1; p <= c.fabric.Nodes[i].NumPorts(); p++ {
			reply.Ports = append(reply.Ports, c.port(topology.End{Node: i, Port: p}))
		}
	}
	return nil
}

func (c *view) port(e topology.End) Port {
	a := c.Agent(e.Node)
	info := a.PortInfo(e.Port)
	manager, _ := a.Manager(e.Port)
	p := Port{Node: c.names[e.Node], Port: e.Port, GUID: c.fabric.Port(e).GUID, State: info.State.String(),
		LID: info.LID, Manager: manager, MTU: info.NeighborMTU.Bytes()}
	if l := c.Node(e.Node).Link(e.Port); l.State != smp.PortDown {
		w, speed := widthAndSpeed(l)
		p.Width, p.Speed = w.String(), speed.String()
	}
	if h, ok := c.Program(e.Node).(Host); ok {
		p.Programs = h.Programs(e.Port)
	}
	return p
}
