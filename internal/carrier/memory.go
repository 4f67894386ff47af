package carrier

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"softrdma/verbs"
)

// A Domain has the protection domains of one session, one on each device, so that a peer's keys are good
// for the memory of its own session alone. It ends when its last holder releases it.
type Domain struct {
	users atomic.Int32
	mu    sync.Mutex
	pds   map[*Rail]*verbs.PD // of devices that have not closed
}

// NewDomain makes a domain with a protection domain on a rail.
func NewDomain(r *Rail) (*Domain, error) {
	d := &Domain{pds: map[*Rail]*verbs.PD{}}
	d.users.Store(1)
	_, err := d.PD(r)
	return d, err
}

// PD returns the protection domain on a rail.
func (d *Domain) PD(r *Rail) (*verbs.PD, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.pds, func(r *Rail, _ *verbs.PD) bool { return r.Gone.Load() })
	if pd := d.pds[r]; pd != nil {
		return pd, nil
	}
	pd, err := r.Dev.AllocPD()
	if err == nil {
		d.pds[r] = pd
	}
	return pd, err
}

// Rails returns the rails on which the session has protection domains.
func (d *Domain) Rails() []*Rail {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Keys(d.pds))
}

// Hold adds a holder, which calls Release.
func (d *Domain) Hold() { d.users.Add(1) }

// Release removes a holder. With the last one the protection domains are deallocated.
func (d *Domain) Release() {
	if d.users.Add(-1) > 0 {
		return
	}
	for _, pd := range d.pds {
		_ = pd.Dealloc() // fails only if the device is closed
	}
}

// A Span is memory of a domain. It is registered on a rail at the latest when a connection of that rail
// needs it.
type Span struct {
	domain  *Domain
	memory  *verbs.Memory
	access  verbs.Access
	regions []region
}

// A region is the registration of a span on a rail.
type region struct {
	rail *Rail
	*verbs.MR
}

// Span allocates memory and registers it on rails. It succeeds if one of several rails does.
func (d *Domain) Span(n int, access verbs.Access, rails ...*Rail) (s Span, err error) {
	cfg := verbs.AllocConfig{}
	if len(rails) > 0 {
		cfg.Device = rails[0].Dev
	}
	if s.memory, err = verbs.AllocMemory(n, cfg); err != nil {
		return s, err
	}
	s.access, s.domain = access, d
	d.Hold()
	for _, r := range rails {
		if _, e := s.On(r); e != nil {
			err = e
		}
	}
	if len(s.regions) > 0 || err == nil {
		return s, nil
	}
	s.Free()
	return s, err
}

// On returns the span's registration on a rail, and makes it if there is none. One goroutine at a time
// calls it.
func (s *Span) On(r *Rail) (*verbs.MR, error) {
	for i := range s.regions {
		if s.regions[i].rail == r {
			return s.regions[i].MR, nil
		}
	}
	pd, err := s.domain.PD(r)
	if err != nil {
		return nil, err
	}
	mr, err := pd.RegisterMemory(s.memory.Bytes(), s.access)
	if err == nil {
		s.regions = slices.DeleteFunc(s.regions, func(x region) bool { return x.rail.Gone.Load() })
		s.regions = append(s.regions, region{r, mr})
	}
	return mr, err
}

// Bytes returns the memory.
func (s *Span) Bytes() []byte { return s.memory.Bytes() }

// Deregister ends the use of the memory by devices.
func (s *Span) Deregister() {
	if s.domain == nil {
		return
	}
	for _, x := range s.regions {
		_ = x.Deregister() // no window is bound to it
	}
	s.regions = nil
	s.domain.Release()
	s.domain = nil
}

// Free frees the memory, which no work request names any more.
func (s *Span) Free() {
	if s.Deregister(); s.memory != nil {
		_ = s.memory.Free() // no region is left
		s.memory = nil
	}
}

// Frames are memory for n frames of one size.
type Frames struct {
	Span
	size int
}

// Frames allocates memory for n frames of a size, and registers it as Span does.
func (d *Domain) Frames(n, size int, access verbs.Access, rails ...*Rail) (f Frames, err error) {
	size = (size + 63) &^ 63
	f.size = size
	f.Span, err = d.Span(n*size, access, rails...)
	return f, err
}

// Bytes returns the memory of a frame.
func (f *Frames) Bytes(i int) []byte { return f.memory.Bytes()[i*f.size : (i+1)*f.size : (i+1)*f.size] }

// SGE returns the first n bytes of a frame as an entry of a work request, on the first rail that it is
// registered on.
func (f *Frames) SGE(i, n int) verbs.SGE { return f.entry(f.regions[0].MR, i, n) }

// entry returns the first n bytes of a frame in a registration of the memory.
func (f *Frames) entry(mr *verbs.MR, i, n int) verbs.SGE { return mr.SGE(i*f.size, n) }
