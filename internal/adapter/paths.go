package adapter

import (
	"net/netip"
	"sync"
	"time"
)

const (
	// pathTime is how long it is remembered that a path is narrow (RFC 8899 5.1.1, as PMTU_RAISE_TIMER).
	pathTime = 10 * time.Minute

	// maxPaths bounds the paths that are remembered.
	maxPaths = 1024
)

// paths remembers the path MTUs that connections have found to pass, so that later connections to the same peers
// have packets that need not be fragmented.
type paths struct {
	mu     sync.Mutex
	narrow map[netip.Addr]narrow
}

type narrow struct {
	mtu   int
	until time.Duration
}

// pathKey returns what a peer's address is remembered as: a path has it with or without a zone, and mapped or not.
func pathKey(peer netip.Addr) netip.Addr { return peer.Unmap().WithZone("") }

// learn notes which path MTU q's machine has found to pass.
func (p *paths) learn(now time.Duration, q *QP) {
	peer, passes := pathKey(q.flow.Peer.Addr()), int(q.Passes)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case passes >= q.Attr.PathMTU:
		if p.narrow[peer].mtu <= passes {
			delete(p.narrow, peer)
		}
		return
	case p.narrow == nil:
		p.narrow = make(map[netip.Addr]narrow)
	case len(p.narrow) >= maxPaths:
		clear(p.narrow)
	}
	p.narrow[peer] = narrow{passes, now + pathTime}
}

// PathMTU returns the largest path MTU that connections to a peer have found to pass, 0 if nothing is known.
func PathMTU(d *Device, peer netip.Addr) int {
	p := &d.paths
	p.mu.Lock()
	defer p.mu.Unlock()
	peer = pathKey(peer)
	n, ok := p.narrow[peer]
	if !ok {
		return 0
	}
	if d.clock() > n.until {
		delete(p.narrow, peer)
		return 0
	}
	return n.mtu
}
