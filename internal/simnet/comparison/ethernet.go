package comparison

import (
	"encoding/binary"
	"hash/fnv"
	"net/netip"

	"softrdma/internal/simnet"
	"softrdma/internal/topology"
)

// switches are the Ethernet switches of a fabric.
type switches struct {
	fabric *topology.Fabric
	ports  map[topology.End]*simnet.Port
	order  []*simnet.Port
	homes  map[netip.Addr]int // node of each host
	routes map[[2]netip.AddrPort][]*simnet.Port
}

// newSwitches puts the switches of a fabric into a network. Host i of the list has address
// hostAddress(i).
func newSwitches(n *simnet.Network, p *Parameters, f *topology.Fabric, hosts []int) *switches {
	s := &switches{fabric: f, ports: map[topology.End]*simnet.Port{}, homes: map[netip.Addr]int{}, routes: map[[2]netip.AddrPort][]*simnet.Port{}}
	for i := range f.Nodes {
		for k := range f.Nodes[i].Ports {
			if f.Nodes[i].Kind != topology.Switch || !f.Nodes[i].Ports[k].Connected() {
				continue
			}
			port := n.NewPort(simnet.Faults{Delay: p.EthernetHop + p.Cable, Bandwidth: p.Bandwidth, Queue: p.Queue, MarkAbove: p.MarkAbove, CutThrough: true})
			s.ports[topology.End{Node: i, Port: k}] = port
			s.order = append(s.order, port)
		}
	}
	for i, node := range hosts {
		s.homes[hostAddress(i)] = node
	}
	n.Route(s.route)
	return s
}

func hostAddress(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}) }

// drops returns the number of packets dropped by full queues.
func (s *switches) drops() (n int) {
	for _, p := range s.order {
		n += p.Stats().QueueFull
	}
	return n
}

// route returns the ports between two addresses: at each switch one on a shortest path, chosen
// by a hash of the fields that the flow's packets share.
func (s *switches) route(src, dst netip.AddrPort) []*simnet.Port {
	key := [2]netip.AddrPort{src, dst}
	if r, ok := s.routes[key]; ok {
		return r
	}
	to := s.homes[dst.Addr()]
	distance := s.distances(to)
	h := fnv.New64a()
	a, b := src.Addr().As4(), dst.Addr().As4()
	h.Write(a[:])
	h.Write(b[:])
	h.Write(binary.BigEndian.AppendUint16(nil, src.Port()))
	var r []*simnet.Port
	for at := s.fabric.Nodes[s.homes[src.Addr()]].Ports[1].Peer.Node; at != to; {
		var nearer []int
		for k := range s.fabric.Nodes[at].Ports {
			if p := &s.fabric.Nodes[at].Ports[k]; p.Connected() && distance[p.Peer.Node] < distance[at] {
				nearer = append(nearer, k)
			}
		}
		h.Write([]byte{byte(at)})
		k := nearer[h.Sum64()>>32%uint64(len(nearer))]
		r = append(r, s.ports[topology.End{Node: at, Port: k}])
		at = s.fabric.Nodes[at].Ports[k].Peer.Node
	}
	s.routes[key] = r
	return r
}

// distances returns the number of cables between each node and a given one.
func (s *switches) distances(to int) []int {
	d := make([]int, len(s.fabric.Nodes))
	for i := range d {
		d[i] = len(d)
	}
	d[to] = 0
	for queue := []int{to}; len(queue) > 0; queue = queue[1:] {
		for k := range s.fabric.Nodes[queue[0]].Ports {
			p := &s.fabric.Nodes[queue[0]].Ports[k]
			if p.Connected() && d[p.Peer.Node] == len(d) {
				d[p.Peer.Node] = d[queue[0]] + 1
				queue = append(queue, p.Peer.Node)
			}
		}
	}
	return d
}
