// Package topology describes a fabric of InfiniBand or Ethernet as data: switches and
// adapters, their GUIDs and names, and the links between their ports. It reads
// and writes the file format that ibnetdiscover prints and ibsim reads, and
// generates regular topologies from a short text.
//
// It opens no file, knows no state of a port, and computes no route.
package topology

import (
	"fmt"
	"strings"
)

// Limits of a fabric.
const (
	MaxPorts       = 254    // 255 in a forwarding table means "no port" (IBTA 14.2.5.11)
	MaxDescription = 64     // bytes of a NodeDescription (IBTA 14.2.5.2)
	MaxLMC         = 7      // IBTA 4.1.3
	LastUnicastLID = 0xBFFF // IBTA 4.1.3
)

// A Kind is what a node is. The values are NodeInfo's NodeType (IBTA 14.2.5.3).
type Kind uint8

// The kinds of nodes.
const (
	Adapter Kind = 1
	Switch  Kind = 2
	Router  Kind = 3
)

// String is the word that ibnetdiscover uses.
func (k Kind) String() string {
	switch k {
	case Adapter:
		return "Ca"
	case Switch:
		return "Switch"
	case Router:
		return "Rt"
	}
	return fmt.Sprintf("node type %d", uint8(k))
}

// A Fabric is a set of nodes and the links between them.
type Fabric struct {
	Nodes []Node
}

// A Node is a switch, an adapter or a router.
type Node struct {
	Kind          Kind
	ID            string // the name that links use in a file, unique in the fabric
	Description   string // NodeDescription: for people, and not necessarily unique
	GUID          uint64
	SystemGUID    uint64
	VendorID      uint32
	DeviceID      uint32
	EnhancedPort0 bool   // of a switch: port 0 is like an adapter's (IBTA 18.2.4.1)
	Ports         []Port // by number; [0] is a switch's management port and unused elsewhere
}

// A Port is one end of a link, or a switch's management port.
type Port struct {
	GUID  uint64
	LID   uint16 // base LID, 0 if none was assigned; a switch has one at port 0 only
	LMC   uint8
	Peer  End   // Peer.Port is 0 if nothing is connected
	Width Width // of the link; 0 if nothing is connected
	Speed Speed

	Length Length // of the cable; 0 if it is not known
}

// An End names a port of a fabric.
type End struct {
	Node int // index in Fabric.Nodes
	Port int
}

// Connected reports whether a cable joins the port to another.
func (p *Port) Connected() bool { return p.Peer.Port != 0 }

// NumPorts is the number of ports without the management port.
func (n *Node) NumPorts() int { return len(n.Ports) - 1 }

// EndPorts are the numbers of the first and the last port that have LIDs: port 0
// of a switch, every port of another node.
func (n *Node) EndPorts() (first, last int) {
	if n.Kind == Switch {
		return 0, 0
	}
	return 1, n.NumPorts()
}

// Port is the port at an end.
func (f *Fabric) Port(e End) *Port { return &f.Nodes[e.Node].Ports[e.Port] }

// EndName names a port for people: the node's description and the port's number.
func (f *Fabric) EndName(e End) string {
	return fmt.Sprintf("%s port %d", f.Nodes[e.Node].Description, e.Port)
}

// Find returns the index of the node with this description, ID or GUID (0x…).
// It fails if no node or more than one has the description.
func (f *Fabric) Find(name string) (int, error) {
	found := -1
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if n.ID == name || strings.EqualFold(fmt.Sprintf("0x%016x", n.GUID), name) {
			return i, nil
		}
		if n.Description != name {
			continue
		}
		if found >= 0 {
			return 0, fmt.Errorf("nodes %s and %s are both called %q: name one by its ID", f.Nodes[found].ID, n.ID, name)
		}
		found = i
	}
	if found < 0 {
		return 0, fmt.Errorf("the fabric has no node %q: expected a description, ID or GUID of a node, as softrdma fabric status lists them", name)
	}
	return found, nil
}

// addNode appends a node with unconnected ports, whose GUIDs follow the node's
// as in ibsim. A switch's ports share the switch's GUID (IBTA 14.2.5.3).
func (f *Fabric) addNode(k Kind, id, description string, guid uint64, ports int) int {
	n := Node{Kind: k, ID: id, Description: description, GUID: guid, SystemGUID: guid, Ports: make([]Port, ports+1)}
	for i := range n.Ports {
		switch {
		case k == Switch:
			n.Ports[i].GUID = guid
		case i > 0:
			n.Ports[i].GUID = guid + uint64(i)
		}
	}
	f.Nodes = append(f.Nodes, n)
	return len(f.Nodes) - 1
}

// A cable is what a link consists of.
type cable struct {
	width  Width
	speed  Speed
	length Length
}

// connect joins two ports by a link.
func (f *Fabric) connect(a, b End, c cable) {
	pa, pb := f.Port(a), f.Port(b)
	pa.Peer, pa.Width, pa.Speed, pa.Length = b, c.width, c.speed, c.length
	pb.Peer, pb.Width, pb.Speed, pb.Length = a, c.width, c.speed, c.length
}

// Ethernet reports whether the fabric has a link of Ethernet, and names a port of it.
func (f *Fabric) Ethernet() (at End, ok bool) {
	for i := range f.Nodes {
		for p := range f.Nodes[i].Ports {
			if f.Nodes[i].Ports[p].Speed.Ethernet() {
				return End{i, p}, true
			}
		}
	}
	return End{}, false
}

// Clone returns a copy that shares nothing with f.
func (f *Fabric) Clone() *Fabric {
	c := &Fabric{Nodes: append([]Node(nil), f.Nodes...)}
	for i := range c.Nodes {
		c.Nodes[i].Ports = append([]Port(nil), c.Nodes[i].Ports...)
	}
	return c
}

// Disconnect removes the link of a port, if there is one.
func (f *Fabric) Disconnect(e End) {
	p := f.Port(e)
	if !p.Connected() {
		return
	}
	q := f.Port(p.Peer)
	p.Peer, p.Width, p.Speed, p.Length = End{}, 0, 0, 0
	q.Peer, q.Width, q.Speed, q.Length = End{}, 0, 0, 0
}
