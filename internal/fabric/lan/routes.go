package lan

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"softrdma/internal/fabric/bridge"
	"softrdma/internal/fabric/dcb"
	"softrdma/internal/management/routing"
	"softrdma/internal/topology"
)

// DefaultPrefix is where the IPv4 addresses of hosts are if a Config does not say.
var DefaultPrefix = netip.MustParsePrefix("10.0.0.0/8")

// hostBits are the last bits of a host's address: its number at its switch. The bits in front of them are
// the number of the switch.
const hostBits = 8

// CheckPrefix refuses a prefix that does not have an address for each host of some nodes.
func CheckPrefix(f *topology.Fabric, p netip.Prefix) error {
	most := 32 - hostBits
	for 1<<(32-hostBits-most) <= len(f.Nodes) {
		most--
	}
	if !p.IsValid() || !p.Addr().Is4() || p.Masked() != p || p.Bits() > most {
		return fmt.Errorf("expected a prefix of IPv4 of up to %d bits for %d nodes, like 10.0.0.0/%d; found %v", most, len(f.Nodes), most, p)
	}
	return nil
}

// Prefix returns where the IPv4 addresses of hosts are.
func (n *Network) Prefix() netip.Prefix {
	if n.config.Prefix.IsValid() {
		return n.config.Prefix
	}
	return DefaultPrefix
}

// base is the number of the prefix's first address.
func base(p netip.Prefix) uint32 {
	b := p.Addr().As4()
	return binary.BigEndian.Uint32(b[:])
}

// MAC returns the MAC address of a node: that of a host's port, and of a switch as a router. Networks with
// different prefixes have different ones.
func (n *Network) MAC(node int) dcb.Address {
	return 0x020000000000 | dcb.Address((base(n.Prefix())^base(DefaultPrefix))>>hostBits) + dcb.Address(node+1)
}

// IP returns the IP address of a host, the zero IP of a switch or a host without a cable.
func (n *Network) IP(node int) dcb.IP { return n.home[node] }

// network6 begins the IPv6 addresses of hosts.
const network6 = 0xfd00 << 48

// IPv6 returns the IPv6 address of the host with an IPv4 address: fd00::x.y.z, with the same last four
// bytes.
func IPv6(v4 dcb.IP) dcb.IP { return dcb.IP{Hi: network6, Lo: v4.Lo & 0xffffffff} }

// Prefix6 returns the prefix of the IPv6 addresses of the hosts with a prefix of IPv4.
func Prefix6(p netip.Prefix) netip.Prefix {
	const front = 128 - 32
	return netip.PrefixFrom(IPv6(dcb.IPv4(base(p))).Addr(), front+p.Bits())
}

// Gateway returns the MAC address of the switch to which a host is connected. It routes what a host
// sends to another one.
func (n *Network) Gateway(node int) dcb.Address { return n.MAC(n.leaf(node)) }

// leaf returns the switch of a host, -1 if it has none.
func (n *Network) leaf(node int) int {
	e := &n.ends[n.nodes[node].first]
	if e.peer < 0 || n.ends[e.peer].node.sw == nil {
		return -1
	}
	return n.ends[e.peer].at.Node
}

// address gives each host an address in the network of its switch: 10.x.y.z, where x.y is the number of
// the switch and z that of the host at it.
func (n *Network) address() {
	next := make([]uint32, len(n.nodes))
	for i := range n.nodes {
		if n.nodes[i].host == nil {
			continue
		}
		if leaf := n.leaf(i); leaf >= 0 {
			next[leaf]++
			n.home[i] = dcb.IPv4(base(n.Prefix()) | uint32(leaf)<<hostBits | next[leaf])
		}
	}
}

func prefixOf(a uint32, length int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, a))), length)
}

// addRoute adds a route of a switch to the addresses whose IPv4 address begins with length bits of a.
func (k *node) addRoute(a uint32, length int, hops ...bridge.Hop) {
	k.sw.AddRoute(prefixOf(a, length), hops...)
	if k.net.config.IPv6 {
		k.sw.AddRoute(Prefix6(prefixOf(a, length)), hops...)
	}
}

// Reroute computes the routes of all switches over links that are up: all shortest paths, of those
// that go up and then down with Config.UpDown. It computes what Config.Bridged wants as well.
func (n *Network) Reroute() {
	n.depend = nil
	f := n.config.Fabric
	if n.cuts > 0 {
		f = f.Clone()
		for i := range n.ends {
			if n.ends[i].cut {
				f.Disconnect(n.ends[i].at)
			}
		}
	}
	for i := range n.nodes {
		if n.nodes[i].sw != nil {
			n.nodes[i].sw.ClearRoutes()
			n.nodes[i].local()
		}
	}
	if n.config.Bridged {
		n.plant()
	}
	var hops []bridge.Hop
	routing.Hops(f, n.config.UpDown, n.trunks.switches(), func(from, to int, ports []int) {
		hops = hops[:0]
		for _, p := range ports {
			hops = append(hops, bridge.Hop{Port: p, Address: n.MAC(f.Nodes[from].Ports[p].Peer.Node)})
		}
		if n.trunks.note(from, to, hops); !n.nodes[to].hasHosts() {
			return
		}
		n.nodes[from].addRoute(base(n.Prefix())|uint32(to)<<hostBits, 32-hostBits, hops...)
		if n.config.Bridged {
			n.neighbors(to, func(_ int, host *end) {
				if host.node.host != nil {
					n.nodes[from].sw.AddStation(n.MAC(host.at.Node), hops...)
				}
			})
		}
	})
	n.trunks.route()
}

// hasHosts reports whether a switch has hosts.
func (k *node) hasHosts() (some bool) {
	k.net.neighbors(k.index, func(_ int, to *end) { some = some || to.node.host != nil })
	return some
}

// plant makes a tree of links between switches for flooded frames, for each part of the network, and
// blocks the others. It is the tree that a search in breadth finds from the first switch with hosts on,
// without branches that have none.
func (n *Network) plant() {
	inTree := make(map[topology.End]bool)
	up := make([]*end, len(n.nodes)) // the end of the link by which the search has come to a switch
	useful := make([]bool, len(n.nodes))
	for i := range n.nodes {
		if n.nodes[i].sw != nil {
			useful[i] = n.nodes[i].hasHosts()
		}
	}
	seen := make([]bool, len(n.nodes))
	for root := range n.nodes {
		if !useful[root] || seen[root] {
			continue
		}
		seen[root] = true
		order := []int{root}
		for k := 0; k < len(order); k++ {
			n.neighbors(order[k], func(_ int, to *end) {
				if next := to.at.Node; to.node.sw != nil && !seen[next] {
					seen[next], up[next] = true, to
					order = append(order, next)
				}
			})
		}
		for _, i := range slices.Backward(order[1:]) {
			if e := up[i]; useful[i] {
				peer := &n.ends[e.peer]
				inTree[e.at], inTree[peer.at] = true, true
				useful[peer.at.Node] = true
			}
		}
	}
	for i := range n.ends {
		e := &n.ends[i]
		if e.node.sw != nil && e.peer >= 0 && n.ends[e.peer].node.sw != nil {
			e.node.sw.Block(e.at.Port, !inTree[e.at])
		}
	}
}

// local adds the routes of a switch to its own hosts.
func (k *node) local() {
	n := k.net
	n.neighbors(k.index, func(port int, to *end) {
		if to.node.host == nil {
			return
		}
		hop := bridge.Hop{Port: port, Address: n.MAC(to.at.Node)}
		k.addRoute(uint32(n.home[to.at.Node].Lo), 32, hop)
		if n.config.Bridged {
			k.sw.AddStation(hop.Address, hop)
		}
	})
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

// Address gives a frame the addresses of a flow between two hosts. With a route it goes to the
// host's gateway; in a network of one switch the switch routes as well.
func (n *Network) Address(f *dcb.Frame, from, to int, port uint16) {
	f.Src, f.Dst = n.MAC(from), n.Gateway(from)
	f.IP, f.To, f.Hops = true, n.home[to], hopLimit
	f.Flow = dcb.FlowOf(n.home[from], n.home[to], udp, port, rocePort)
}

const (
	hopLimit = 64
	udp      = 17
	rocePort = 4791
)
