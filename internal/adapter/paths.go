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

// learn notes which path MTU q's machine has found to pass.
func (p *paths) learn(now time.Duration, q *QP) {
	peer, passes := q.flow.Peer.Addr(), int(q.Passes)
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
	n, ok := p.narrow[peer.Unmap().WithZone("")]
	if !ok {
		return 0
	}
	if d.clock() > n.until {
		delete(p.narrow, peer)
		return 0
	}
	return n.mtu
}
