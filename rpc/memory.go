package rpc

import (
	"sync/atomic"

	"softrdma/verbs"
)

// A domain is the protection domain of one session, so that a peer's keys are good for the memory
// of its own session alone. It ends when its last holder releases it.
type domain struct {
	pd    *verbs.PD
	users atomic.Int32
}

func newDomain(dev *verbs.Device) (*domain, error) {
	pd, err := dev.AllocPD()
	if err != nil {
		return nil, err
	}
	d := &domain{pd: pd}
	d.users.Store(1)
	return d, nil
}

func (d *domain) hold() { d.users.Add(1) }

func (d *domain) release() {
	if d.users.Add(-1) == 0 {
		_ = d.pd.Dealloc() // fails only if the device is closed
	}
}

// A span is registered memory of a domain.
type span struct {
	domain *domain
	memory *verbs.Memory
	region *verbs.MR
}

func (d *domain) span(n int, access verbs.Access) (s span, err error) {
	if s.memory, err = verbs.AllocMemory(n, verbs.AllocConfig{Device: d.pd.Device()}); err != nil {
		return s, err
	}
	if s.region, err = d.pd.RegisterMemory(s.memory.Bytes(), access); err != nil {
		_ = s.memory.Free() // nothing is registered over it
		return s, err
	}
	d.hold()
	s.domain = d
	return s, nil
}

// free gives the memory back. No work request names it.
func (s *span) free() {
	if s.domain == nil {
		return
	}
	_ = s.region.Deregister() // no window is bound to it
	_ = s.memory.Free()
	s.domain.release()
	s.domain = nil
}

// frames are memory for n frames of one size.
type frames struct {
	span
	size int
}

func (d *domain) frames(n, size int, access verbs.Access) (f frames, err error) {
	size = (size + 63) &^ 63
	f.size = size
	f.span, err = d.span(n*size, access)
	return f, err
}

func (f *frames) bytes(i int) []byte { return f.memory.Bytes()[i*f.size : (i+1)*f.size : (i+1)*f.size] }

func (f *frames) entry(i, n int) verbs.SGE { return f.region.SGE(i*f.size, n) }
