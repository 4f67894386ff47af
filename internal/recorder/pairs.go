package recorder

import (
	"net/netip"
	"sync"
	"sync/atomic"

	"softrdma/internal/reason"
)

// pairsSize is of how many queue pairs Pairs knows something.
const pairsSize = 1024

// Pairs is what a device remembers of its queue pairs beside their records: the peer's address, why each
// failed by itself, and why its peer ended the connection. The zero value is ready. Any goroutine may use
// it. If it is in memory of two processes (Memory), the one with the queue pairs makes the entries and says
// why they failed, and the one with the connection manager says why peers have left.
type Pairs struct {
	mu   sync.Mutex
	ring ring[pair]
}

// A pair is an entry of Pairs, in a cache line. Two processes may have it: numbers are read and written
// at once, reasons after their numbers.
type pair struct {
	qpn                     uint32
	why, said               uint32 // reasons
	bits                    uint8  // of the peer's address, 0 if it is not known
	_                       [3]byte
	peer                    [16]byte
	whyExpected, whyFound   uint64
	saidExpected, saidFound uint64
}

// Add adds a queue pair.
func (p *Pairs) Add(qpn uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.add(qpn)
}

func (p *Pairs) add(qpn uint32) *pair {
	x := p.ring.place(pairsSize)
	atomic.StoreUint32(&x.qpn, 0) // an older one's
	atomic.StoreUint32(&x.why, 0)
	atomic.StoreUint32(&x.said, 0)
	x.bits = 0
	atomic.StoreUint32(&x.qpn, qpn)
	return x
}

// find returns the latest entry of a queue pair, nil if there is none. It trusts nothing that it reads but
// the ring's size.
func (p *Pairs) find(qpn uint32) *pair {
	n := p.ring.made()
	for i := n; i > p.ring.oldest(n); i-- {
		if x := p.ring.at(i - 1); atomic.LoadUint32(&x.qpn) == qpn {
			return x
		}
	}
	return nil
}

// of returns the entry of a queue pair of this process.
func (p *Pairs) of(qpn uint32) *pair {
	if x := p.find(qpn); x != nil {
		return x
	}
	return p.add(qpn)
}

// Connect notes the address of a queue pair's peer.
func (p *Pairs) Connect(qpn uint32, peer netip.Addr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.of(qpn)
	x.peer, x.bits = peer.As16(), uint8(peer.BitLen())
}

// Fail notes why a queue pair failed by itself.
func (p *Pairs) Fail(qpn uint32, why reason.Detail) {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.of(qpn)
	store(&x.why, &x.whyExpected, &x.whyFound, why)
}

// Forget forgets why a queue pair failed and why its peer left.
func (p *Pairs) Forget(qpn uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if x := p.find(qpn); x != nil {
		atomic.StoreUint32(&x.why, 0)
		atomic.StoreUint32(&x.said, 0)
	}
}

// Why returns why a queue pair failed by itself, None if it did not.
func (p *Pairs) Why(qpn uint32) (d reason.Detail) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if x := p.find(qpn); x != nil {
		d = load(&x.why, &x.whyExpected, &x.whyFound)
	}
	return d
}

// Leave notes why the peer of a queue pair has left. It does nothing if there is no such queue pair.
func (p *Pairs) Leave(qpn uint32, said reason.Detail) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if x := p.find(qpn); x != nil {
		store(&x.said, &x.saidExpected, &x.saidFound, said)
	}
}

// Said returns why the peer of a queue pair has left, None if Leave did not say so.
func (p *Pairs) Said(qpn uint32) (d reason.Detail) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if x := p.find(qpn); x != nil {
		d = load(&x.said, &x.saidExpected, &x.saidFound)
	}
	return d
}

// Peers returns the peers' addresses by queue pair.
func (p *Pairs) Peers() map[uint32]netip.Addr {
	p.mu.Lock()
	defer p.mu.Unlock()
	peers := make(map[uint32]netip.Addr)
	n := p.ring.made()
	for i := p.ring.oldest(n); i < n; i++ {
		switch x := p.ring.at(i); x.bits {
		case 32:
			peers[x.qpn] = netip.AddrFrom16(x.peer).Unmap()
		case 128:
			peers[x.qpn] = netip.AddrFrom16(x.peer)
		}
	}
	return peers
}

func store(r *uint32, expected, found *uint64, d reason.Detail) {
	atomic.StoreUint32(r, 0)
	atomic.StoreUint64(expected, d.Expected)
	atomic.StoreUint64(found, d.Found)
	atomic.StoreUint32(r, uint32(d.Reason))
}

func load(r *uint32, expected, found *uint64) reason.Detail {
	d := reason.Detail{Reason: reason.Reason(atomic.LoadUint32(r))}
	if !d.Reason.Known() {
		return reason.Detail{}
	}
	d.Expected, d.Found = atomic.LoadUint64(expected), atomic.LoadUint64(found)
	return d
}
