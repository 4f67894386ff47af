package coll

import (
	"errors"
	"unsafe"

	"softrdma/msg"
	"softrdma/verbs"
)

const (
	minSlab = 16 << 10 // bytes from which memory can be mapped by other processes
	maxKey  = 64       // the longest key of a region
)

// A slab is memory of this member that members on the same host can map.
type slab struct {
	number uint64 // among those of this member, from 1
	bytes  []byte
	key    []byte
	region *msg.Region
	memory *verbs.Memory
	shared bool // others can map it, unless they have no room for that
}

// free frees the memory. Views of other processes keep its pages.
func (s *slab) free() error { return errors.Join(s.region.Unmap(), s.memory.Free()) }

// share returns a slab of n bytes, at least minSlab, that exists until drop or close. It does not belong
// to the worker, which may close during a call.
func (p *pool) share(n int) (*slab, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, ErrClosed
	}
	m, err := verbs.AllocMemory(n, verbs.AllocConfig{})
	if err != nil {
		return nil, err
	}
	r, err := p.worker.Map(m.Bytes(), msg.AllowGet)
	if err != nil {
		_ = m.Free() // no region is left
		return nil, err
	}
	p.number++
	s := &slab{p.number, m.Bytes(), r.Key(), r, m, m.Shared()}
	p.slabs = append(p.slabs, s)
	return s, nil
}

// drop frees a slab.
func (p *pool) drop(s *slab) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.slabs {
		if p.slabs[i] == s {
			p.slabs = append(p.slabs[:i], p.slabs[i+1:]...)
			_ = s.free() // the group has ended
			return
		}
	}
}

// has reports whether bytes are in a slab that others can map.
func (p *pool) has(b []byte) bool {
	s, _ := p.find(b)
	return s != nil
}

// find returns the slab that has some bytes, and where, or nil if others cannot map them.
func (p *pool) find(b []byte) (*slab, int) {
	if len(b) == 0 {
		return nil, 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	at := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	for _, s := range p.slabs {
		if !s.shared {
			continue
		}
		base := uintptr(unsafe.Pointer(unsafe.SliceData(s.bytes)))
		if at >= base && at-base <= uintptr(len(s.bytes)) && uintptr(len(b)) <= uintptr(len(s.bytes))-(at-base) {
			return s, int(at - base)
		}
	}
	return nil, 0
}
