package subnet

import "softrdma/internal/topology"

// Fabric returns the nodes and cables that the subnet is made of. It is for reading.
func (s *Subnet) Fabric() *topology.Fabric { return s.config.Fabric }

// IsCut reports whether the cable of a port is cut.
func (s *Subnet) IsCut(at topology.End) bool { return s.cable(at).cut }
