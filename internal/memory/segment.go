package memory

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"softrdma/internal/qp"
)

// A Segment is memory of this process that peers on the same host may map: an allocation whose
// pages are in a file without a name, which cannot be truncated.
type Segment struct {
	ID  uint32 // unique in this process, never 0
	Mem []byte // whole pages

	n  int // bytes that the program uses; the rest fills the last page
	mu sync.RWMutex
	fd int // of the file; -1 after Close
}

var segmentIDs atomic.Uint32

// NewSegment makes a segment of whole pages, of which the program has the first n bytes,
// and the descriptor of their file. The caller keeps both, and calls Close before it
// closes the descriptor.
func NewSegment(pages []byte, n, fd int) *Segment {
	return &Segment{ID: segmentIDs.Add(1), Mem: pages, n: n, fd: fd}
}

// Use calls f with the descriptor, which stays open until f returns, and reports whether
// the segment is open.
func (s *Segment) Use(f func(fd int)) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.fd < 0 {
		return false
	}
	f(s.fd)
	return true
}

// Close closes the segment. When it returns the descriptor is not in use, and will not be
// used: its number may become that of another file.
func (s *Segment) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fd = -1
}

// Covers reports whether mem has all bytes of the segment that the program uses. A smaller
// region must not be offered: peers would see more than was registered.
func (s *Segment) Covers(mem []byte) bool {
	return len(mem) >= s.n && len(mem) <= len(s.Mem) && Addr(mem) == Addr(s.Mem)
}

// Segments holds the segments that a table's regions cover, by address. The zero value is
// empty.
type Segments struct {
	list    atomic.Pointer[[]*Segment] // sorted; replaced, never changed
	regions map[*Segment]int           // number of regions that cover it; guarded by the table's mutex
}

// Find returns the segment of an address, or nil. It does not lock.
func (s *Segments) Find(addr uint64) *Segment {
	list := s.list.Load()
	if list == nil {
		return nil
	}
	if i, found := search(*list, addr); found || i > 0 {
		if !found {
			i--
		}
		if x := (*list)[i]; addr-Addr(x.Mem) < uint64(len(x.Mem)) {
			return x
		}
	}
	return nil
}

// Locate returns the segment that a region covers, and the offset of an address in it, if peers may
// read the region by its key.
func (t *Table) Locate(key uint32, addr uint64) (s *Segment, offset uint64, ok bool) {
	r := t.Lookup(key)
	if r == nil || r.Kind != MR || !r.Valid() || r.Access&qp.RemoteRead == 0 || r.segment == nil || addr-r.Base > r.Len() {
		return nil, 0, false
	}
	return r.segment, addr - r.Base, true
}

func search(list []*Segment, addr uint64) (int, bool) {
	return slices.BinarySearchFunc(list, addr, func(x *Segment, addr uint64) int { return cmp.Compare(Addr(x.Mem), addr) })
}

// add counts a region that covers x, which may be nil.
func (s *Segments) add(x *Segment) {
	if x == nil {
		return
	}
	if s.regions == nil {
		s.regions = make(map[*Segment]int)
	}
	if s.regions[x]++; s.regions[x] > 1 {
		return
	}
	var list []*Segment
	if old := s.list.Load(); old != nil {
		list = *old
	}
	i, _ := search(list, Addr(x.Mem))
	list = slices.Insert(slices.Clone(list), i, x)
	s.list.Store(&list)
}

// remove undoes add.
func (s *Segments) remove(x *Segment) {
	if x == nil {
		return
	}
	if s.regions[x]--; s.regions[x] > 0 {
		return
	}
	delete(s.regions, x)
	list := slices.Clone(*s.list.Load())
	list = slices.DeleteFunc(list, func(y *Segment) bool { return y == x })
	s.list.Store(&list)
}
