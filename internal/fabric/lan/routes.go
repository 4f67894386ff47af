package lan

import (
	"encoding/binary"
	"net/netip"

	"softrdma/internal/fabric/bridge"
	"softrdma/internal/fabric/dcb"
)

// MAC returns the MAC address of a node: that of a host's port, and of a switch as a router.
func MAC(node int) dcb.Address { return 0x020000000000 | dcb.Address(node+1) }

// Addresses of hosts are 10.x.y.z: x.y is the number of the switch, z that of the host at it.
const (
	network  = 10 << 24
	hostBits = 8
)

// IP returns the IP address of a host, the zero IP of a switch or a host without a cable.
func (n *Network) IP(node int) dcb.IP { return n.home[node] }

// Gateway returns the MAC address of the switch to which a host is connected. It routes what a host
// sends to another one.
func (n *Network) Gateway(node int) dcb.Address { return MAC(n.leaf(node)) }

// leaf returns the switch of a host, -1 if it has none.
func (n *Network) leaf(node int) int {
	e := &n.ends[n.nodes[node].first]
	if e.peer < 0 || n.ends[e.peer].node.sw == nil {
		return -1
	}
	return n.ends[e.peer].at.Node
}

// address gives each host an address in the network of its switch.
func (n *Network) address() {
	next := make([]uint32, len(n.nodes))
	for i := range n.nodes {
		if n.nodes[i].host == nil {
			continue
		}
		if leaf := n.leaf(i); leaf >= 0 {
			next[leaf]++
			n.home[i] = dcb.IPv4(network | uint32(leaf)<<hostBits | next[leaf])
		}
	}
}

func prefixOf(a uint32, length int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, a))), length)
}

// Reroute computes the routes of all switches: all shortest paths over links that are up.
func (n *Network) Reroute() {
	distance := make([]int, len(n.nodes))
	for i := range n.nodes {
		if n.nodes[i].sw != nil {
			n.nodes[i].sw.ClearRoutes()
		}
	}
	for leaf := range n.nodes {
		if n.nodes[leaf].sw == nil || !n.local(leaf) {
			continue
		}
		n.distances(leaf, distance)
		for i := range n.nodes {
			if n.nodes[i].sw == nil || i == leaf {
				continue
			}
			var hops []bridge.Hop
			n.neighbors(i, func(port int, to *end) {
				if d := distance[to.at.Node]; to.node.sw != nil && d >= 0 && d == distance[i]-1 {
					hops = append(hops, bridge.Hop{Port: port, Address: MAC(to.at.Node)})
				}
			})
			if len(hops) > 0 {
				n.nodes[i].sw.AddRoute(prefixOf(network|uint32(leaf)<<hostBits, 32-hostBits), hops...)
			}
		}
	}
}

// local adds the routes of a switch to its own hosts, and reports whether it has hosts.
func (n *Network) local(leaf int) (has bool) {
	n.neighbors(leaf, func(port int, to *end) {
		if to.node.host == nil {
			return
		}
		has = true
		n.nodes[leaf].sw.AddRoute(prefixOf(uint32(n.home[to.at.Node].Lo), 32), bridge.Hop{Port: port, Address: MAC(to.at.Node)})
	})
	return has
}

// neighbors calls f with each port of a node whose link is up, and the other end.
func (n *Network) neighbors(node int, f func(port int, to *end)) {
	k := &n.nodes[node]
	for p := 1; p <= n.config.Fabric.Nodes[node].NumPorts(); p++ {
		if e := &n.ends[int(k.first)+p-1]; e.peer >= 0 && !e.cut {
			f(p, &n.ends[e.peer])
		}
	}
}

// distances sets the number of cables between each switch and one of them, -1 without a path.
func (n *Network) distances(from int, d []int) {
	for i := range d {
		d[i] = -1
	}
	d[from] = 0
	queue := []int{from}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		n.neighbors(at, func(_ int, to *end) {
			if to.node.sw != nil && d[to.at.Node] < 0 {
				d[to.at.Node] = d[at] + 1
				queue = append(queue, to.at.Node)
			}
		})
	}
}

// Address gives a frame the addresses of a flow between two hosts. With a route it goes to the
// host's gateway; in a network of one switch the switch routes as well.
func (n *Network) Address(f *dcb.Frame, from, to int, port uint16) {
	f.Src, f.Dst = MAC(from), n.Gateway(from)
	f.IP, f.To, f.Hops = true, n.home[to], hopLimit
	f.Flow = dcb.FlowOf(n.home[from], n.home[to], udp, port, rocePort)
}

const (
	hopLimit = 64
	udp      = 17
	rocePort = 4791
)
