package lan

import (
	"math"

	"softrdma/internal/topology"
)

// divide divides the nodes of a fabric into parts with about as many cables, and returns the part of
// each node and the number of parts, which is at most the given one. Hosts are in the part of their
// switch. Switches with hosts are divided in the order of their numbers, which keeps neighbors together,
// and the others follow most of their neighbors.
func divide(f *topology.Fabric, parts int) (of []int32, count int) {
	of = make([]int32, len(f.Nodes))
	leaves, total := leaves(f)
	if parts = min(parts, len(leaves)); parts <= 1 {
		return of, 1
	}
	for i := range of {
		of[i] = -1
	}
	var layer []int
	sum := 0
	load := make([]int, parts) // ports of the switches of each part
	for _, i := range leaves {
		k := min(sum*parts/total, parts-1)
		of[i] = int32(k)
		sum += f.Nodes[i].NumPorts()
		load[k] += f.Nodes[i].NumPorts()
		layer = append(layer, i)
	}
	for len(layer) > 0 {
		layer = follow(f, layer, of, load)
	}
	for i := range of {
		if n := &f.Nodes[i]; n.Kind != topology.Switch && n.Ports[1].Peer.Port != 0 {
			of[i] = of[n.Ports[1].Peer.Node]
		}
		of[i] = max(of[i], 0) // nothing is connected to it
	}
	return of, parts
}

// leaves returns the switches with hosts, and the number of their ports.
func leaves(f *topology.Fabric) (list []int, ports int) {
	for i := range f.Nodes {
		n := &f.Nodes[i]
		for p := 1; p <= n.NumPorts() && n.Kind == topology.Switch; p++ {
			if peer := n.Ports[p].Peer; peer.Port != 0 && f.Nodes[peer.Node].Kind != topology.Switch {
				list = append(list, i)
				ports += n.NumPorts()
				break
			}
		}
	}
	return list, ports
}

// follow puts the neighbors of a layer of switches that are in no part yet into that of most of their
// neighbors, of several the one with the least load. It returns these neighbors.
func follow(f *topology.Fabric, layer []int, of []int32, load []int) (next []int) {
	seen := make(map[int]bool)
	for _, i := range layer {
		for p := 1; p <= f.Nodes[i].NumPorts(); p++ {
			if peer := f.Nodes[i].Ports[p].Peer; peer.Port != 0 && f.Nodes[peer.Node].Kind == topology.Switch && of[peer.Node] < 0 && !seen[peer.Node] {
				seen[peer.Node] = true
				next = append(next, peer.Node)
			}
		}
	}
	for _, i := range next {
		n := &f.Nodes[i]
		cables := make([]int, len(load))
		for p := 1; p <= n.NumPorts(); p++ {
			if peer := n.Ports[p].Peer; peer.Port != 0 && of[peer.Node] >= 0 {
				cables[of[peer.Node]]++
			}
		}
		best, least := 0, math.MaxInt
		for k := range load {
			if cables[k] > cables[best] || cables[k] == cables[best] && load[k] < least {
				best, least = k, load[k]
			}
		}
		of[i] = int32(best)
		load[best] += n.NumPorts()
	}
	return next
}
