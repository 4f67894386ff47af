package simnet

import (
	"net/netip"
	"time"
)

// natPorts is the first port that translators give away.
const natPorts = 20000

// A NAT is an address translator with one address towards the network. Each pair of an inside endpoint and a peer has an entry with a port
// of its own, and only that peer's packets come in through it (RFC 4787 4.1 and 5: address and port-dependent mapping and
// filtering, which is the strictest).
type NAT struct {
	net     *Network
	outer   netip.Addr
	timeout time.Duration
	entries []natEntry
	next    uint16

	// Refused counts packets from the network that no entry is for.
	Refused int
}

type natEntry struct {
	inside    *Link
	src, peer netip.AddrPort
	port      uint16 // towards the network
	until     time.Duration
}

// AddNAT makes a translator, which forgets entries that were not used by a packet to the network for the timeout.
func (n *Network) AddNAT(outer netip.Addr, timeout time.Duration) *NAT {
	t := &NAT{net: n, outer: outer, timeout: timeout, next: natPorts}
	n.nats = append(n.nats, t)
	return t
}

// Attach makes a link behind the translator. The address may be that of another link which is behind one.
func (t *NAT) Attach(local netip.AddrPort, c LinkConfig) *Link {
	l := t.net.attach(local, c)
	l.nat = t
	return l
}

// Rebind forgets all entries, and has another address towards the network from then on. The ports of later entries are
// new, too.
func (t *NAT) Rebind(outer netip.Addr) {
	t.outer, t.entries = outer, nil
	t.next += 100
}

// leave translates a packet of a link to the network.
func (t *NAT) leave(l *Link, p *packet) {
	for i := range t.entries {
		e := &t.entries[i]
		if e.inside == l && e.src == p.src && e.peer == p.dst && t.net.now < e.until {
			e.until = t.net.now + t.timeout
			p.src = netip.AddrPortFrom(t.outer, e.port)
			return
		}
	}
	t.entries = append(t.entries, natEntry{l, p.src, p.dst, t.next, t.net.now + t.timeout})
	p.src = netip.AddrPortFrom(t.outer, t.next)
	t.next++
}

// enter translates a packet from the network, and returns the link that it is for, nil if there is none.
func (t *NAT) enter(p *packet) *Link {
	for i := range t.entries {
		if e := &t.entries[i]; e.port == p.dst.Port() && e.peer == p.src && t.net.now < e.until {
			p.dst = e.src
			return e.inside
		}
	}
	t.Refused++
	return nil
}

// translate returns the link behind a translator that a packet is for, nil if there is none.
func (n *Network) translate(p *packet) *Link {
	for _, t := range n.nats {
		if t.outer == p.dst.Addr() {
			return t.enter(p)
		}
	}
	return nil
}
