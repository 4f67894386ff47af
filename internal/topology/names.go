package topology

import (
	"strconv"
	"strings"
)

// Names returns the names by which Find finds the nodes: the description, or the ID if the
// description could mean another node, or another node's port.
func (f *Fabric) Names() []string {
	count := make(map[string]int, 2*len(f.Nodes))
	for i := range f.Nodes {
		n := &f.Nodes[i]
		count[n.Description]++
		if n.ID != n.Description {
			count[n.ID]++
		}
	}
	names := make([]string, len(f.Nodes))
	for i := range f.Nodes {
		n := &f.Nodes[i]
		names[i] = n.Description
		node, _, hasPort := CutPort(n.Description)
		if count[n.Description] > 1 || n.Description == "" || hasPort && count[node] > 0 {
			names[i] = n.ID
		}
	}
	return names
}

// CutPort splits NODE:PORT.
func CutPort(name string) (node string, port int, ok bool) {
	at := strings.LastIndexByte(name, ':')
	if at < 0 {
		return name, 0, false
	}
	port, err := strconv.Atoi(name[at+1:])
	return name[:at], port, err == nil
}

// PortName returns the name of a port by which commands and devices take it, for one of Names.
// It has the port's number, except for the first port of an adapter of which no other port has
// a cable.
func (f *Fabric) PortName(name string, e End) string {
	if e.Port == 1 && f.Nodes[e.Node].Kind != Switch && f.onlyCable(e) && !strings.Contains(name, ":") {
		return name
	}
	return name + ":" + strconv.Itoa(e.Port)
}

// onlyCable reports whether no other port of the node has a cable.
func (f *Fabric) onlyCable(e End) bool {
	for p := range f.Nodes[e.Node].Ports {
		if p != e.Port && f.Nodes[e.Node].Ports[p].Connected() {
			return false
		}
	}
	return true
}
