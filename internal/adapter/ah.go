package adapter

import (
	"fmt"
	"net/netip"
	"sync"

	"softrdma/internal/qp"
	"softrdma/internal/queue"
)

// CreateAH makes an address handle and returns its number, by which datagram
// work requests name it.
func (p *PD) CreateAH(path qp.Path) (uint32, error) {
	if err := p.dev.resolve(&path, 0); err != nil {
		return 0, err
	}
	if err := p.add(&p.dev.counts.AH); err != nil {
		return 0, err
	}
	num := p.dev.handles.add(p.ID, path)
	p.dev.cfg.Sanitizer.Created(HandleObject(num), "address handle")
	return num, nil
}

// DestroyAH gives an address handle up. Datagrams that were posted with it before are
// sent or fail.
func (p *PD) DestroyAH(num uint32) error {
	if !p.dev.handles.remove(p.ID, num) {
		return fmt.Errorf("no address handle %d in protection domain %d", num, p.ID)
	}
	p.dev.cfg.Sanitizer.Destroyed(HandleObject(num))
	p.remove(&p.dev.counts.AH)
	return nil
}

func (p *PD) path(to queue.UD) *qp.Path { return p.dev.handles.path(p.ID, to) }

// A handleTable has the address handles of a device by number. The zero value is empty and ready for use, by
// any goroutine.
type handleTable struct {
	mu      sync.RWMutex
	last    uint32
	all     map[uint32]*handle
	vectors map[vector]*alike
}

type handle struct {
	domain uint32
	path   qp.Path
}

// A vector holds what an address vector of rdma-core before 39 says of a handle.
type vector struct {
	domain       uint32
	dgid         netip.Addr
	flowLabel    uint32
	sgidIndex    uint8
	hopLimit     uint8
	trafficClass uint8
}

// An alike counts the handles of a vector, which name the path of the first one.
type alike struct {
	path  qp.Path
	count int
}

// vector returns the address vector of a handle.
func (h *handle) vector() vector {
	p := &h.path
	return vector{h.domain, p.Dst.Addr(), p.FlowLabel, p.SGIDIndex, p.HopLimit, p.TrafficClass}
}

// add makes a handle of a protection domain and returns its number, which is never 0.
func (t *handleTable) add(domain uint32, path qp.Path) uint32 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all == nil {
		t.all, t.vectors = make(map[uint32]*handle), make(map[vector]*alike)
	}
	t.last++
	for t.last == 0 || t.all[t.last] != nil {
		t.last++
	}
	h := &handle{domain, path}
	t.all[t.last] = h
	if v := h.vector(); t.vectors[v] != nil {
		t.vectors[v].count++
	} else if path.Global() { // a vector has no LID
		t.vectors[v] = &alike{path, 1}
	}
	return t.last
}

// remove ends a handle of a domain, and reports whether the domain had it.
func (t *handleTable) remove(domain, number uint32) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.all[number]
	if h == nil || h.domain != domain {
		return false
	}
	delete(t.all, number)
	v := h.vector()
	if a := t.vectors[v]; a != nil && a.count > 1 {
		a.count--
	} else {
		delete(t.vectors, v)
	}
	return true
}

// path returns where the handle of a datagram leads, nil if the domain has no such handle: queue
// pairs use only those of their own domain (IBTA 10.2.3), and the numbers are easily guessed.
func (t *handleTable) path(domain uint32, to queue.UD) *qp.Path {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if to.AHNum != 0 {
		if h := t.all[to.AHNum]; h != nil && h.domain == domain {
			return &h.path
		}
		return nil
	}
	av := &to.AV
	dgid := netip.AddrFrom16(av.DGID).Unmap()
	if a := t.vectors[vector{domain, dgid, av.FlowLabel & 0xfffff, av.SGIDIndex, av.HopLimit, av.TrafficClass}]; a != nil {
		return &a.path
	}
	return nil
}
