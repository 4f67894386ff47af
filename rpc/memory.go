package rpc

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"softrdma/verbs"
)

// A domain has the protection domains of one session, one on each device, so that a peer's keys are good
// for the memory of its own session alone. It ends when its last holder releases it.
type domain struct {
	users atomic.Int32
	mu    sync.Mutex
	pds   map[*rail]*verbs.PD // of devices that have not closed
}

// newDomain makes a domain with a protection domain on a rail.
func newDomain(r *rail) (*domain, error) {
	d := &domain{pds: map[*rail]*verbs.PD{}}
	d.users.Store(1)
	_, err := d.pd(r)
	return d, err
}

// pd returns the protection domain on a rail.
func (d *domain) pd(r *rail) (*verbs.PD, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.pds, func(r *rail, _ *verbs.PD) bool { return r.gone.Load() })
	if pd := d.pds[r]; pd != nil {
		return pd, nil
	}
	pd, err := r.dev.AllocPD()
	if err == nil {
		d.pds[r] = pd
	}
	return pd, err
}

// rails returns the rails on which the session has protection domains.
func (d *domain) rails() []*rail {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Keys(d.pds))
}

func (d *domain) hold() { d.users.Add(1) }

func (d *domain) release() {
	if d.users.Add(-1) > 0 {
		return
	}
	for _, pd := range d.pds {
		_ = pd.Dealloc() // fails only if the device is closed
	}
}

// A span is memory of a domain. It is registered on a rail at the latest when a connection of that rail
// needs it.
type span struct {
	domain  *domain
	memory  *verbs.Memory
	access  verbs.Access
	regions []region
}

// A region is the registration of a span on a rail.
type region struct {
	rail *rail
	*verbs.MR
}

// span allocates memory and registers it on rails. If one of several fails, on uses the others.
func (d *domain) span(n int, access verbs.Access, rails ...*rail) (s span, err error) {
	cfg := verbs.AllocConfig{}
	if len(rails) > 0 {
		cfg.Device = rails[0].dev
	}
	if s.memory, err = verbs.AllocMemory(n, cfg); err != nil {
		return s, err
	}
	s.access, s.domain = access, d
	d.hold()
	for _, r := range rails {
		if _, e := s.on(r); e != nil {
			err = e
		}
	}
	if len(s.regions) > 0 || err == nil {
		return s, nil
	}
	s.free()
	return s, err
}

// on returns the span's registration on a rail. Callers do not call it at the same time.
func (s *span) on(r *rail) (*verbs.MR, error) {
	for i := range s.regions {
		if s.regions[i].rail == r {
			return s.regions[i].MR, nil
		}
	}
	pd, err := s.domain.pd(r)
	if err != nil {
		return nil, err
	}
	mr, err := pd.RegisterMemory(s.memory.Bytes(), s.access)
	if err == nil {
		s.regions = slices.DeleteFunc(s.regions, func(x region) bool { return x.rail.gone.Load() })
		s.regions = append(s.regions, region{r, mr})
	}
	return mr, err
}

// free gives the memory back. No work request names it.
func (s *span) free() {
	if s.domain == nil {
		return
	}
	for _, x := range s.regions {
		_ = x.Deregister() // no window is bound to it
	}
	_ = s.memory.Free()
	s.domain.release()
	s.domain = nil
}

// frames are memory for n frames of one size.
type frames struct {
	span
	size int
}

func (d *domain) frames(n, size int, access verbs.Access, rails ...*rail) (f frames, err error) {
	size = (size + 63) &^ 63
	f.size = size
	f.span, err = d.span(n*size, access, rails...)
	return f, err
}

func (f *frames) bytes(i int) []byte { return f.memory.Bytes()[i*f.size : (i+1)*f.size : (i+1)*f.size] }

// entry returns the first n bytes of a frame in a registration of the memory.
func (f *frames) entry(mr *verbs.MR, i, n int) verbs.SGE { return mr.SGE(i*f.size, n) }
