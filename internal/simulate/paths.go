package simulate

import (
	"softrdma/internal/fabric/bridge"
	"softrdma/internal/fabric/dcb"
	"softrdma/internal/fabric/lan"
	"softrdma/internal/simulate/hosts"
	"softrdma/internal/simulate/scenario"
	"softrdma/internal/topology"
	"softrdma/internal/wire/ib"
)

// paths know how long messages take in an empty network.
type paths struct {
	net    *lan.Network
	fabric *topology.Fabric
	hop    dcb.Time
	mtu    int
	store  bool                   // switches forward a frame when all of it has arrived
	trees  map[int][]topology.End // by the switch at which they begin: the end of a cable at the node before each node
	path   []cable                // of the last call of between
}

// A cable is a link of a path.
type cable struct {
	delay, perByte dcb.Time
	free           dcb.Time // when it carries the next frame
}

func newPaths(n *lan.Network, v *scenario.Variant) *paths {
	p := &paths{net: n, fabric: n.Fabric(), hop: v.Switch.Hop.Time(), mtu: v.Sender.MTU, store: v.Switch.Mode == scenario.StoreAndForward, trees: map[int][]topology.End{}}
	if p.hop == 0 {
		p.hop = bridge.DefaultHop
	}
	if p.mtu == 0 {
		p.mtu = hosts.DefaultMTU
	}
	return p
}

// link returns the cable of a port.
func (p *paths) link(at topology.End) (c cable) {
	c.delay, c.perByte = p.net.Cable(at)
	return c
}

func (p *paths) isSwitch(node int) bool { return p.fabric.Nodes[node].Kind == topology.Switch }

// gateway returns the port that a host is connected to.
func (p *paths) gateway(host int) topology.End { return p.fabric.Nodes[host].Ports[1].Peer }

// between returns the cables between two hosts, which the next call changes.
func (p *paths) between(from, to int) []cable {
	first, last := p.gateway(from), p.gateway(to)
	tree := p.trees[last.Node] // trees begin at the receiver, so that following one leads forward
	if tree == nil {
		tree = p.search(last.Node)
		p.trees[last.Node] = tree
	}
	p.path = append(p.path[:0], p.link(first))
	for at := first.Node; at != last.Node; {
		next := tree[at]
		p.path = append(p.path, p.link(next))
		at = next.Node
	}
	p.path = append(p.path, p.link(last))
	return p.path
}

// search finds the cable to the next node on a shortest path from each switch to one of them. Port 0
// is none.
func (p *paths) search(to int) []topology.End {
	tree := make([]topology.End, len(p.fabric.Nodes))
	for queue := []int{to}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		n := &p.fabric.Nodes[at]
		for i := 1; i <= n.NumPorts(); i++ {
			if peer := n.Ports[i].Peer; peer.Port != 0 && peer.Node != to && tree[peer.Node].Port == 0 && p.isSwitch(peer.Node) {
				tree[peer.Node] = topology.End{Node: at, Port: i}
				queue = append(queue, peer.Node)
			}
		}
	}
	return tree
}

// frame sends a frame along a path as early as the one before it permits, and returns when its last
// byte arrives.
func (p *paths) frame(path []cable, length int) (tail dcb.Time) {
	first := dcb.Time(0) // byte at the node
	for i := range path {
		c := &path[i]
		switch {
		case i == 0:
		case p.store:
			first = tail + p.hop
		default: // cut-through, as early as the frame does not run dry
			first = max(first, tail-dcb.Time(length)*c.perByte) + p.hop
		}
		first = max(first, c.free)
		c.free = first + dcb.Time(dcb.WireLen(length))*c.perByte
		first += c.delay
		tail = first + dcb.Time(length)*c.perByte
	}
	return tail
}

// serial returns how long the link of a host carries a message of n bytes.
func (p *paths) serial(host, n int) (t dcb.Time) {
	c := p.link(p.gateway(host))
	for ; n > 0; n -= p.mtu {
		t += dcb.Time(dcb.WireLen(hosts.FrameLen(ib.RCWriteMiddle, min(n, p.mtu)))) * c.perByte
	}
	return t
}

// arrival returns how long the last byte of a message of n bytes takes in an empty network, if the
// sender does not wait for anything.
func (p *paths) arrival(from, to, n int) (tail dcb.Time) {
	path := p.between(from, to)
	for off := 0; off == 0 || off < n; off += p.mtu {
		part := min(p.mtu, n-off)
		op := ib.RCWriteMiddle
		switch first, last := off == 0, off+part >= n; {
		case first && last:
			op = ib.RCWriteOnlyImm
		case first:
			op = ib.RCWriteFirst
		case last:
			op = ib.RCWriteLastImm
		}
		tail = p.frame(path, hosts.FrameLen(op, part))
	}
	return tail
}

// message returns how long a message takes until it is acknowledged.
func (p *paths) message(from, to, n int) dcb.Time {
	there := p.arrival(from, to, n)
	return there + p.frame(p.between(to, from), hosts.FrameLen(ib.RCAcknowledge, 0))
}
