package control

import (
	"softrdma/internal/topology"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/mad/smp"
)

// Routes are the forwarding tables of a switch.
type Routes struct {
	Switch string      `json:"switch"`
	LID    uint16      `json:"lid"`
	Top    uint16      `json:"top"`    // highest LID of the linear table
	Ports  []RoutePort `json:"ports"`  // those that the table uses
	Groups []Group     `json:"groups"` // multicast

	Prefixes []Prefix `json:"prefixes,omitempty"` // on Ethernet, which has none of the other fields
}

// A Prefix is a route of a switch of Ethernet.
type Prefix struct {
	Prefix string   `json:"prefix"`
	Node   string   `json:"node"`  // the host, or the switch whose hosts have the addresses
	Ports  []int    `json:"ports"` // among which the switch chooses for each flow
	To     []string `json:"to"`    // what is at the other ends
	Down   []int    `json:"down"`  // ports of the route whose link is down
}

// A RoutePort is a port with the LIDs to which it leads.
type RoutePort struct {
	Port int        `json:"port"`
	To   string     `json:"to"` // the port at the other end; "" for port 0, the switch itself
	LIDs []RouteLID `json:"lids"`
}

// A RouteLID is a LID with the node that has it, "" if none does.
type RouteLID struct {
	LID  uint16 `json:"lid"`
	Node string `json:"node,omitempty"`
}

// A Group is a multicast LID with the ports to which its packets go.
type Group struct {
	LID   uint16 `json:"lid"`
	Ports []int  `json:"ports"`
}

func (c *view) routes(r *Request, reply *Reply) error {
	i, err := c.findSwitch(r.Args[0])
	if err != nil {
		return err
	}
	n := c.Node(i)
	rt := &Routes{Switch: c.names[i], LID: uint16(n.LID(0)), Top: uint16(n.LinearTop()), Ports: []RoutePort{}, Groups: []Group{}}
	byPort := make([][]RouteLID, 256)
	names := c.lidNames()
	for lid := uint16(1); lid <= rt.Top; lid++ {
		if p := n.Unicast(ib.LID(lid)); p != smp.NoPort {
			byPort[p] = append(byPort[p], RouteLID{lid, names[lid]})
		}
	}
	for p, lids := range byPort {
		if len(lids) == 0 {
			continue
		}
		to := ""
		switch {
		case p > n.Ports():
			to = "nothing: the switch has no such port"
		case p > 0:
			to = c.behind(topology.End{Node: i, Port: p})
		}
		rt.Ports = append(rt.Ports, RoutePort{p, to, lids})
	}
	for lid := ib.MulticastLID; lid <= n.MulticastTop(); lid++ {
		if ports := n.Group(lid); len(ports) > 0 {
			rt.Groups = append(rt.Groups, Group{uint16(lid), ports})
		}
	}
	reply.Routes = rt
	return nil
}

// lidNames returns the node of each LID.
func (c *view) lidNames() map[uint16]string {
	names := make(map[uint16]string)
	for i := range c.fabric.Nodes {
		first, last := c.fabric.Nodes[i].EndPorts()
		for p := first; p <= last; p++ {
			base, lmc := c.Agent(i).LID(p)
			for l := range uint16(1) << lmc {
				if base == 0 {
					break
				}
				names[base+l] = c.names[i]
				if first != last {
					names[base+l] = c.endName(topology.End{Node: i, Port: p})
				}
			}
		}
	}
	return names
}
