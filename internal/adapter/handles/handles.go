// Package handles has the address handles of a device. It resolves no address.
package handles

import (
	"sync"

	"softrdma/internal/qp"
)

// A Table is the address handles by number. The zero value is empty and ready for use, by
// any goroutine.
type Table struct {
	mu   sync.RWMutex
	last uint32
	all  map[uint32]*handle
}

type handle struct {
	domain uint32
	path   qp.Path
}

// Add makes a handle of a protection domain and returns its number, which is never 0.
func (t *Table) Add(domain uint32, path qp.Path) uint32 {
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

// Remove ends a handle of a domain, and reports whether the domain had it.
func (t *Table) Remove(domain, number uint32) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h := t.all[number]; h == nil || h.domain != domain {
		return false
	}
	delete(t.all, number)
	return true
}

// Path returns where a handle leads, nil if the domain has no such handle: queue pairs use
// those of their own domain alone (IBTA 10.2.3), and the numbers are easily guessed.
func (t *Table) Path(domain, number uint32) *qp.Path {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if h := t.all[number]; h != nil && h.domain == domain {
		return &h.path
	}
	return nil
}
