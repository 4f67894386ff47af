package routing

import (
	"slices"

	"softrdma/internal/topology"
)

// A balancer spreads the destinations over the ports that lead to them.
type balancer struct {
	load [][topology.MaxPorts + 1]int32 // by switch and port: LIDs of adapters
}

func newBalancer(g *graph) balancer {
	return balancer{load: make([][topology.MaxPorts + 1]int32, len(g.nodes))}
}

// choose takes, for each LID, a port with the fewest LIDs. The LIDs of one port
// (LMC) go by different neighbors first, then by different ports.
func (b *balancer) choose(s int, c []candidate, e endPort, lft []uint8) {
	load := &b.load[s]
	var used [topology.MaxPorts + 1]uint8 // by port
	for i := range e.count {
		best, bestKey := 0, [3]int32{unreachable}
		for j := range c {
			key := [3]int32{0, int32(used[c[j].port]), load[c[j].port]}
			if i > 0 {
				for k := range c {
					if c[k].via == c[j].via {
						key[0] += int32(used[c[k].port])
					}
				}
			}
			if slices.Compare(key[:], bestKey[:]) < 0 {
				best, bestKey = j, key
			}
		}
		port := c[best].port
		lft[int(e.lid)+i] = port
		used[port]++
		if e.port != 0 {
			load[port]++
		}
	}
}
