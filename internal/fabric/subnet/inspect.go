package subnet

import "softrdma/internal/topology"

// Fabric returns the nodes and cables that the subnet is made of. It is for reading.
func (n *nodes) Fabric() *topology.Fabric { return n.config.Fabric }

// IsCut reports whether the cable of a port is cut.
func (n *nodes) IsCut(at topology.End) bool { return n.cable(at).cut }
