package control

import (
	"softrdma/internal/topology"
	"softrdma/internal/wire/mad/smp"
)

// The networks of a Status.
const (
	InfiniBand = "InfiniBand"
	Ethernet   = "Ethernet"
)

// A Status is what a fabric consists of, and its manager.
type Status struct {
	Switches int            `json:"switches"`
	Adapters int            `json:"adapters"`
	Links    map[string]int `json:"links"`   // by Link.State
	Network  string         `json:"network"` // InfiniBand or Ethernet
	Manager  Manager        `json:"manager"`
	LIDs     int            `json:"lids"` // end ports that have one
	TopLID   uint16         `json:"top_lid"`
	Nodes    []Node         `json:"nodes"`
}

// A Node is a switch or an adapter.
type Node struct {
	Name   string   `json:"name"`
	Kind   string   `json:"kind"` // "switch", or "adapter", "host" on Ethernet
	GUID   uint64   `json:"guid"`
	LIDs   []uint16 `json:"lids"`          // base LIDs: of the switch, or of each port of an adapter; 0 if unset; none on Ethernet
	MAC    string   `json:"mac,omitempty"` // on Ethernet
	IP     string   `json:"ip,omitempty"`  // of a host on Ethernet, the first of IPs
	IPs    []string `json:"ips,omitempty"` // of a host on Ethernet
	Ports  int      `json:"ports"`
	Cables int      `json:"cables"`
	Active int      `json:"active"` // ports that carry data
}

// A Manager is the subnet manager that programs the fabric.
type Manager struct {
	// The master that the end ports know of. LID 0 means that no manager has set them up.
	LID  uint16 `json:"lid"`
	Node string `json:"node,omitempty"`

	// Own is the fabric's own manager, nil if it runs without one.
	Own *OwnManager `json:"own,omitempty"`
}

// An OwnManager is the state of the fabric's own manager.
type OwnManager struct {
	State    string `json:"state"`
	Idle     bool   `json:"idle"` // it has nothing to do before its next look
	Sweeps   int    `json:"sweeps"`
	Failures int    `json:"failures"` // requests of the last sweep without a good answer
	Routing  string `json:"routing"`
	Note     string `json:"note,omitempty"` // why the routing is not the one that was asked for
}

func (c *view) status(_ *Request, reply *Reply) error {
	st := &Status{Network: InfiniBand, Links: make(map[string]int)}
	for i := range c.fabric.Nodes {
		n := c.node(i)
		if c.isSwitch(i) {
			st.Switches++
		} else {
			st.Adapters++
		}
		for _, lid := range n.LIDs {
			if lid != 0 {
				st.LIDs++
				st.TopLID = max(st.TopLID, lid)
			}
		}
		st.Nodes = append(st.Nodes, n)
	}
	for _, e := range c.cables() {
		st.Links[c.linkState(e)]++
	}
	st.Manager = c.managers()
	reply.Status = st
	return nil
}

func (c *view) node(i int) Node {
	t := &c.fabric.Nodes[i]
	n := Node{Name: c.names[i], Kind: "adapter", GUID: t.GUID, Ports: t.NumPorts()}
	if c.isSwitch(i) {
		n.Kind = "switch"
	}
	first, last := t.EndPorts()
	for p := first; p <= last; p++ {
		lid, _ := c.Agent(i).LID(p)
		n.LIDs = append(n.LIDs, lid)
	}
	for p := 1; p <= t.NumPorts(); p++ {
		if c.hasCable(topology.End{Node: i, Port: p}) {
			n.Cables++
		}
		if c.Node(i).Link(p).State == smp.PortActive {
			n.Active++
		}
	}
	return n
}

// managers describes the master that most end ports would name: the first one's.
func (c *view) managers() (m Manager) {
	if c.manager != nil {
		s := c.manager.Status()
		m.Own = &OwnManager{State: s.State.String(), Idle: c.manager.Idle(), Sweeps: s.Sweeps, Failures: s.Failures, Routing: s.Algorithm.String()}
		if s.Reason != nil {
			m.Own.Note = s.Reason.Error()
		}
	}
	for i := range c.fabric.Nodes {
		first, last := c.fabric.Nodes[i].EndPorts()
		for p := first; p <= last; p++ {
			if lid, _ := c.Agent(i).Manager(p); lid != 0 {
				m.LID = lid
				if e, ok := c.owner(lid); ok {
					m.Node = c.names[e.Node]
				}
				return m
			}
		}
	}
	return m
}

// owner returns the end port that has a LID.
func (c *view) owner(lid uint16) (topology.End, bool) {
	for i := range c.fabric.Nodes {
		first, last := c.fabric.Nodes[i].EndPorts()
		for p := first; p <= last; p++ {
			base, lmc := c.Agent(i).LID(p)
			if base != 0 && lid>>lmc == base>>lmc {
				return topology.End{Node: i, Port: p}, true
			}
		}
	}
	return topology.End{}, false
}
