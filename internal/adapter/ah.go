package adapter

import (
	"fmt"
	"sync"

	"softrdma/internal/qp"
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
	return p.dev.handles.add(p.ID, path), nil
}

// DestroyAH gives an address handle up. Datagrams that were posted with it before are
// sent or fail.
func (p *PD) DestroyAH(num uint32) error {
	if !p.dev.handles.remove(p.ID, num) {
		return fmt.Errorf("no address handle %d in protection domain %d", num, p.ID)
	}
	p.remove(&p.dev.counts.AH)
	return nil
}

func (p *PD) path(num uint32) *qp.Path { return p.dev.handles.path(p.ID, num) }

// A handleTable has the address handles of a device by number. The zero value is empty and ready for use, by
// any goroutine.
type handleTable struct {
	mu   sync.RWMutex
	last uint32
	all  map[uint32]*handle
}

type handle struct {
	domain uint32
	path   qp.Path
}

// add makes a handle of a protection domain and returns its number, which is never 0.
func (t *handleTable) add(domain uint32, path qp.Path) uint32 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all == nil {
		t.all = make(map[uint32]*handle)
	}
	for {
		t.last++
		if t.last != 0 && t.all[t.last] == nil {
			t.all[t.last] = &handle{domain, path}
			return t.last
		}
	}
}

// remove ends a handle of a domain, and reports whether the domain had it.
func (t *handleTable) remove(domain, number uint32) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h := t.all[number]; h == nil || h.domain != domain {
		return false
	}
	delete(t.all, number)
	return true
}

// path returns where a handle leads, nil if the domain has no such handle: queue pairs use
// those of their own domain alone (IBTA 10.2.3), and the numbers are easily guessed.
func (t *handleTable) path(domain, number uint32) *qp.Path {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if h := t.all[number]; h != nil && h.domain == domain {
		return &h.path
	}
	return nil
}
