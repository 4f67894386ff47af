package adapter

import (
	"fmt"

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
	return p.dev.handles.Add(p.ID, path), nil
}

// DestroyAH gives an address handle up. Datagrams that were posted with it before are
// sent or fail.
func (p *PD) DestroyAH(num uint32) error {
	if !p.dev.handles.Remove(p.ID, num) {
		return fmt.Errorf("no address handle %d in protection domain %d", num, p.ID)
	}
	p.remove(&p.dev.counts.AH)
	return nil
}

func (p *PD) path(num uint32) *qp.Path { return p.dev.handles.Path(p.ID, num) }
