package adapter

import (
	"fmt"

	"softrdma/internal/qp"
)

// An address is what an address handle stands for.
type address struct {
	pd   *PD
	path qp.Path
}

// CreateAH makes an address handle and returns its number, by which datagram
// work requests name it.
func (p *PD) CreateAH(path qp.Path) (uint32, error) {
	if err := p.dev.resolve(&path, 0); err != nil {
		return 0, err
	}
	if err := p.add(&p.dev.counts.AH); err != nil {
		return 0, err
	}
	d := p.dev
	d.ahMu.Lock()
	defer d.ahMu.Unlock()
	for {
		d.nextAH++
		if d.nextAH != 0 && d.ahs[d.nextAH] == nil {
			d.ahs[d.nextAH] = &address{p, path}
			return d.nextAH, nil
		}
	}
}

// DestroyAH gives an address handle up. Datagrams that were posted with it before are
// sent or fail.
func (p *PD) DestroyAH(num uint32) error {
	d := p.dev
	d.ahMu.Lock()
	defer d.ahMu.Unlock()
	if a := d.ahs[num]; a == nil || a.pd != p {
		return fmt.Errorf("no address handle %d in protection domain %d", num, p.ID)
	}
	delete(d.ahs, num)
	p.remove(&d.counts.AH)
	return nil
}

// path returns where an address handle leads, nil if the domain has no such handle:
// queue pairs use those of their own domain alone (IBTA 10.2.3), and the numbers are
// easily guessed.
func (p *PD) path(num uint32) *qp.Path {
	d := p.dev
	d.ahMu.RLock()
	defer d.ahMu.RUnlock()
	if a := d.ahs[num]; a != nil && a.pd == p {
		return &a.path
	}
	return nil
}
