package adapter

import (
	"errors"
	"fmt"

	"softrdma/internal/memory"
	"softrdma/internal/object"
	"softrdma/internal/qp"
)

// A PD is a protection domain.
type PD struct {
	dev   *Device
	ID    uint32
	owner object.Owner
	uses  object.Uses
}

// hold counts one more object in the domain.
func (p *PD) hold() error {
	if err := p.dev.Closed(); err != nil {
		return err
	}
	if !p.uses.Hold() {
		return fmt.Errorf("protection domain %d: %w", p.ID, ErrDestroyed)
	}
	return nil
}

// add is hold, and counts the object among the device's.
func (p *PD) add(n *int) error {
	if err := p.hold(); err != nil {
		return err
	}
	if err := p.dev.add(n, 1); err != nil {
		p.uses.Drop()
		return err
	}
	return nil
}

// remove ends add.
func (p *PD) remove(n *int) {
	p.uses.Drop()
	_ = p.dev.add(n, -1) // fewer objects are never refused
}

// AllocPD makes a protection domain of this process.
func (d *Device) AllocPD() (*PD, error) { return AllocPDFor(d, object.Owner{}) }

// AllocPDFor makes a protection domain of a program. Tools see the owner of it and its objects.
func AllocPDFor(d *Device, owner object.Owner) (*PD, error) {
	if err := d.add(&d.counts.PD, 1); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.nextPD++
	p := &PD{dev: d, ID: d.nextPD, owner: owner}
	if d.inventory.pds == nil {
		d.inventory.pds = make(map[*PD]struct{})
	}
	d.inventory.pds[p] = struct{}{}
	d.cfg.Sanitizer.Created(p, "protection domain")
	return p, nil
}

// Device is the domain's device.
func (p *PD) Device() *Device { return p.dev }

// Dealloc gives the domain up. It is refused while the domain has objects.
func (p *PD) Dealloc() error {
	if did, err := p.uses.End("protection domain"); !did {
		return err
	}
	p.dev.cfg.Sanitizer.Destroyed(p)
	p.dev.mu.Lock()
	delete(p.dev.inventory.pds, p)
	p.dev.mu.Unlock()
	return p.dev.add(&p.dev.counts.PD, -1)
}

// Register makes a memory region in the domain (see memory.Table.Register).
func (p *PD) Register(mem []byte, base uint64, access qp.Access) (*memory.Region, error) {
	return p.RegisterSegment(mem, base, access, nil)
}

// RegisterSegment is Register for memory that may lie in a segment (see
// memory.Table.RegisterSegment).
func (p *PD) RegisterSegment(mem []byte, base uint64, access qp.Access, s *memory.Segment) (*memory.Region, error) {
	if err := p.hold(); err != nil {
		return nil, err
	}
	return p.registered(p.dev.Memory.RegisterSegment(p.ID, mem, base, access, s))
}

// registered follows a registration, for which the caller has held the domain.
func (p *PD) registered(r *memory.Region, err error) (*memory.Region, error) {
	if err != nil {
		p.uses.Drop()
		return nil, err
	}
	p.dev.cfg.Sanitizer.Registered(r)
	return r, nil
}

// RegisterUnpinned is Register for memory that may be unmapped (see
// memory.Table.RegisterUnpinned).
func (p *PD) RegisterUnpinned(mem []byte, base uint64, access qp.Access) (*memory.Region, error) {
	if err := p.hold(); err != nil {
		return nil, err
	}
	return p.registered(p.dev.Memory.RegisterUnpinned(p.ID, mem, base, access))
}

// RegisterForeign makes a memory region of another process's memory in the
// domain (see memory.Table.RegisterForeign). The mirror is one lane's: a device
// with more is refused.
func (p *PD) RegisterForeign(mirror []byte, base uint64, access qp.Access, f memory.Foreign) (*memory.Region, error) {
	if n := len(p.dev.lanes); n > 1 {
		return nil, fmt.Errorf("memory of another process wants a device with 1 lane, found %d: %w", n, errors.ErrUnsupported)
	}
	if err := p.hold(); err != nil {
		return nil, err
	}
	return p.registered(p.dev.Memory.RegisterForeign(p.ID, mirror, base, access, f))
}

// Deregister takes a region of the domain away. When it returns no lane
// touches the region's memory any more.
func (p *PD) Deregister(r *memory.Region) error {
	p.dev.cfg.Sanitizer.Deregistering(r)
	err := p.dev.Memory.Deregister(r)
	if err == nil {
		p.dev.cfg.Sanitizer.Deregistered(r)
		p.uses.Drop()
		p.dev.endUse(r)
	}
	return err
}

// Reregister replaces a region of the domain (see memory.Table.Reregister).
func (p *PD) Reregister(old *memory.Region, mem []byte, base uint64, access qp.Access, s *memory.Segment) (*memory.Region, error) {
	if err := p.dev.Closed(); err != nil {
		return nil, err
	}
	p.dev.cfg.Sanitizer.Deregistering(old)
	r, err := p.dev.Memory.Reregister(old, p.ID, mem, base, access, s)
	if err == nil {
		p.dev.cfg.Sanitizer.Deregistered(old)
		p.dev.cfg.Sanitizer.Registered(r)
		p.dev.endUse(old)
	}
	return r, err
}

// AllocWindow makes an unbound memory window and returns its key.
func (p *PD) AllocWindow(kind memory.Kind) (uint32, error) {
	if err := p.add(&p.dev.counts.MW); err != nil {
		return 0, err
	}
	key, err := p.dev.Memory.AllocWindow(p.ID, kind)
	if err != nil {
		p.remove(&p.dev.counts.MW)
		return 0, err
	}
	p.dev.cfg.Sanitizer.Created(WindowObject(key), "memory window")
	return key, nil
}

// FreeWindow takes a window of the domain away.
func (p *PD) FreeWindow(key uint32) error {
	err := p.dev.Memory.FreeWindow(key)
	if err == nil {
		p.dev.cfg.Sanitizer.Destroyed(WindowObject(key))
		p.remove(&p.dev.counts.MW)
		p.dev.endWindow()
	}
	return err
}
