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
	fabric *topology.Fabric
	links  scenario.Links
	hop    dcb.Time
	mtu    int
	trees  map[int][]int32 // by the switch at which they begin: the node before each node
	path   []cable         // of the last call of between
}

// A cable is a link of a path.
type cable struct {
	delay, perByte dcb.Time
	free           dcb.Time // when it carries the next frame
}

func newPaths(f *topology.Fabric, v *scenario.Variant) *paths {
	p := &paths{fabric: f, links: v.Links, hop: v.Switch.Hop.Time(), mtu: v.Sender.MTU, trees: map[int][]int32{}}
	if p.hop == 0 {
		p.hop = bridge.DefaultHop
	}
	if p.mtu == 0 {
		p.mtu = hosts.DefaultMTU
	}
	return p
}

// link returns the cable between two nodes.
func (p *paths) link(a, b int) cable {
	rate, delay := p.links.Speed, p.links.Cable
	if !p.isSwitch(a) || !p.isSwitch(b) {
		if h := p.links.Hosts; h.Speed != 0 {
			rate = h.Speed
		}
		if h := p.links.Hosts; h.Cable != 0 {
			delay = h.Cable
		}
	}
	c := cable{delay: delay.Time(), perByte: speed(rate).PerByte()}
	if c.delay == 0 {
		c.delay = lan.DefaultCable
	}
	return c
}

func (p *paths) isSwitch(node int) bool { return p.fabric.Nodes[node].Kind == topology.Switch }

// gateway returns the node that a host is connected to.
func (p *paths) gateway(host int) int { return p.fabric.Nodes[host].Ports[1].Peer.Node }

// between returns the cables between two hosts, which the next call changes.
func (p *paths) between(from, to int) []cable {
	last := p.gateway(to) // trees begin at the receiver, so that following one leads forward
	tree := p.trees[last]
	if tree == nil {
		tree = p.search(last)
		p.trees[last] = tree
	}
	at := p.gateway(from)
	p.path = append(p.path[:0], p.link(from, at))
	for at != last {
		next := int(tree[at])
		p.path = append(p.path, p.link(at, next))
		at = next
	}
	p.path = append(p.path, p.link(last, to))
	return p.path
}

// search finds the next node on a shortest path from each switch to one of them.
func (p *paths) search(to int) []int32 {
	tree := make([]int32, len(p.fabric.Nodes))
	for i := range tree {
		tree[i] = -1
	}
	tree[to] = int32(to)
	for queue := []int{to}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		n := &p.fabric.Nodes[at]
		for i := 1; i <= n.NumPorts(); i++ {
			if peer := n.Ports[i].Peer; peer.Port != 0 && tree[peer.Node] < 0 && p.isSwitch(peer.Node) {
				tree[peer.Node] = int32(at)
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
		if i > 0 { // cut-through, as early as the frame does not run dry
			first = max(first, tail-dcb.Time(length)*c.perByte) + p.hop
		}
		first = max(first, c.free)
		c.free = first + dcb.Time(dcb.WireLen(length))*c.perByte
		first += c.delay
		tail = first + dcb.Time(length)*c.perByte
	}
	return tail
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
